// What the node's address management takes with many blocks, without kernel
// and API server, in a process with coild's V8 flags.
import { DAEMON_V8_FLAGS } from "../../deploy/executable/modules/v8_flags.ts";
import { type Figure, figure } from "./figures.ts";
import type { IpamTimes } from "./ipam_program.ts";

const PROGRAM = new URL("./ipam_program.ts", import.meta.url).pathname;
type Sizes = readonly (readonly [number, number])[];

/** Blocks, and their prefix length: single addresses of some EC2 types, and prefixes. */
const SIZES: Sizes = [[1, 32], [27, 32], [110, 32], [234, 32], [735, 32], [
  46,
  28,
]];

/** `ipam.<blocks>.*`: start without and with a pod for each address, `allocate()`, a release. */
export async function ipamFigures(
  sizes: Sizes = SIZES,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [blocks, length] of sizes) {
    const args = ["run", "-A", DAEMON_V8_FLAGS, PROGRAM];
    const { stdout, success } = await new Deno.Command(Deno.execPath(), {
      args: [...args, `${blocks}`, `${length}`],
      stderr: "inherit",
    }).output();
    if (!success) throw new Error(`Cannot measure ${blocks} blocks`);
    const times: IpamTimes = JSON.parse(new TextDecoder().decode(stdout));
    for (const [name, samples] of Object.entries(times)) {
      figures.push(figure(`ipam.${blocks}.${name}`, "ms", samples));
    }
  }
  return figures;
}
