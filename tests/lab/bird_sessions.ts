import * as path from "node:path";
import { ensureBird } from "./bird.ts";
import type { ControlPlane } from "./control_plane.ts";
import { type LabProcess, spawnProcess } from "./process.ts";

const COIL_CONF = new URL("../../deploy/bird/coil.conf", import.meta.url)
  .pathname;
const FIRST_AS = 64_500;

/** A node as BIRD has to know it. */
export interface BirdNode {
  readonly name: string;
  /** Of both families, IPv4 first. */
  readonly addresses: readonly string[];
  readonly netns: string;
}

/** What deploy/bird/bird.conf is for a rack, for the node of this index that talks to all others. */
export function birdConfiguration(
  nodes: readonly BirdNode[],
  index: number,
): string {
  const node = nodes[index];
  if (node === undefined) throw new RangeError(`Cannot find node ${index}`);
  const sessions = nodes.flatMap((other, number) => {
    if (number === index) return [];
    return (["ipv4", "ipv6"] as const).map((family, i) =>
      `protocol bgp ${other.name}_${family} {
  local ${node.addresses[i]} as ${FIRST_AS + index};
  neighbor ${other.addresses[i]} as ${FIRST_AS + number};
  ${family} {
    import all;
    export where proto = "coil_blocks${family.slice(-1)}";
    next hop self;
  };
}`
    );
  });
  return `router id ${node.addresses[0]};
protocol device {}
include "${COIL_CONF}";
${sessions.join("\n")}
`;
}

/** Starts a BIRD on each node; they tell each other the nodes' blocks by BGP. */
export async function startBirds(
  plane: ControlPlane,
  nodes: readonly BirdNode[],
): Promise<readonly LabProcess[]> {
  const { program, env } = await ensureBird();
  return await Promise.all(nodes.map(async ({ name, netns }, index) => {
    const base = path.join(plane.runDir, `${name}.bird`);
    await Deno.writeTextFile(
      `${base}.conf`,
      birdConfiguration(nodes, index),
    );
    return await spawnProcess({
      id: `bird-${name}`,
      runDir: plane.runDir,
      netns,
      command: program,
      args: [
        ...["-f", "-c", `${base}.conf`, "-s", `${base}.ctl`],
        ...["-P", `${base}.pid`],
      ],
      env,
    });
  }));
}
