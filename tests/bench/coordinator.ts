// The plugin coordinator by coild and alone, and upstream's, one after the other
// on the same host. The plugin before is always the same: a macvlan.
import type { JsonObject } from "../../lib/json/mod.ts";
import * as path from "node:path";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import { startLoneCoild } from "../lab/lone_coild.ts";
import { type Log, sleep } from "../lab/mod.ts";
import { AgentStub, ensurePeerCoordinator } from "../lab/peer_coordinator.ts";
import { copyPlugin } from "../lab/plugin_file.ts";
import { callPlugin, type Sandbox, sandboxOf } from "../lab/runtime.ts";
import {
  CoordinatorLab,
  interfaceAddressIn,
  type NicSpec,
  SERVICES,
} from "../netns/coordinator_lab.ts";
import { type Figure, figure } from "./figures.ts";
import { probeFigures } from "./probes.ts";
import {
  endedChildrenSeconds,
  memoryOf,
  processorSeconds,
} from "./process_memory.ts";

const WAVE = 110;
/** Until a daemon has given back the pages that work has left: half a minute, and what a collection takes. */
const SETTLE_MS = 35_000;
const NEIGHBOURS = 10_000;
const STACKS: Readonly<Record<string, readonly Family[]>> = {
  ipv4: ["ipv4"],
  dual: FAMILIES,
};

export interface CoordinatorBench {
  readonly executable: string;
  readonly quick: boolean;
  readonly log: Log;
}

/** A way to call the plugin. */
interface Contestant {
  readonly name: "coil" | "alone" | "upstream";
  readonly plugin: string;
}

/** A pod with one interface for each network number. */
interface Pod {
  readonly sandbox: Sandbox;
  readonly netns: AsyncDisposable;
  readonly number: number;
}

interface Stage {
  readonly lab: CoordinatorLab;
  readonly coild: number;
  readonly contestants: readonly Contestant[];
  readonly quick: boolean;
}

/** All figures of the coordinator. */
export async function coordinatorFigures(
  bench: CoordinatorBench,
): Promise<Figure[]> {
  const { log, quick } = bench;
  const upstream = await ensurePeerCoordinator({ log });
  await using _agent = await AgentStub.start({
    serviceCIDR: Object.values(SERVICES),
  });
  const figures: Figure[] = [];
  for (const [label, families] of Object.entries(STACKS)) {
    log(`coordinator, ${label}, one call at a time`);
    await using lab = await CoordinatorLab.start(families);
    const directory = await Deno.makeTempDir();
    const plugins = await placePlugins(bench.executable, directory);
    await using coild = await startLoneCoild({
      executable: bench.executable,
      netns: lab.host.path,
      directory,
    });
    const contestants: Contestant[] = [
      { name: "coil", plugin: plugins.coil },
      { name: "alone", plugin: plugins.alone },
      { name: "upstream", plugin: upstream },
    ];
    const stage = { lab, coild: coild.pid, contestants, quick };
    figures.push(...await oneByOne(stage, label));
    if (label === "dual") {
      figures.push(...await crowded(stage), ...await atOnce(stage, log));
      figures.push(...await memoryFigures(stage), ...await probes(stage));
      figures.push(...await probeFigures(lab, WAVE));
    }
  }
  return figures;
}

async function placePlugins(executable: string, directory: string) {
  const place = async (name: string, socket: string) => {
    const plugin = await copyPlugin(path.join(directory, name), {
      executable,
      socket,
    });
    const link = path.join(path.dirname(plugin), "coordinator");
    await Deno.symlink(path.basename(plugin), link);
    return link;
  };
  return {
    coil: await place("coil", `${directory}/coild.sock`),
    alone: await place("alone", `${directory}/none/coild.sock`),
  };
}

/** ADD and DEL of the first interface, each contestant in turn: wall clock and processor time. */
async function oneByOne(stage: Stage, label: string): Promise<Figure[]> {
  const rounds = stage.quick ? 10 : 60;
  const times = new Map<string, number[]>();
  const used = new Map<string, number>();
  for (let round = 0; round < rounds; round++) {
    for (const contestant of stage.contestants) {
      const pod = await makePod(stage, 1);
      for (const command of ["ADD", "DEL"] as const) {
        const name = `${command.toLowerCase()}.${label}.${contestant.name}`;
        const before = processorMs(stage);
        const ms = await call(stage, contestant, { command, pod });
        used.set(name, (used.get(name) ?? 0) + processorMs(stage) - before);
        times.set(name, [...times.get(name) ?? [], ms]);
      }
      await pod.netns[Symbol.asyncDispose]();
    }
  }
  return [...times].flatMap(([name, samples]) => [
    figure(`coordinator.${name}`, "ms", samples),
    // The kernel counts in steps of 10 ms, so only the mean says something.
    figure(`coordinator.cpu.${name}`, "ms", [(used.get(name) ?? 0) / rounds]),
  ]);
}

/** ADD where the host knows many neighbours. */
async function crowded(stage: Stage): Promise<Figure[]> {
  const { host } = stage.lab;
  const lines = Array.from(
    { length: NEIGHBOURS },
    (_, i) =>
      `neighbour replace 10.8.${i >> 8}.${
        i & 255
      } lladdr 02:00:00:00:00:01 dev net8 nud permanent`,
  );
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, lines.join("\n"));
  await host.ip("-batch", file);
  const times = new Map<string, number[]>();
  for (let round = 0; round < (stage.quick ? 5 : 30); round++) {
    for (const contestant of stage.contestants) {
      const ms = await addOnce(stage, contestant);
      times.set(contestant.name, [...times.get(contestant.name) ?? [], ms]);
    }
  }
  await host.ip("neighbour", "flush", "dev", "net8", "nud", "permanent");
  return [...times].map(([name, samples]) =>
    figure(`coordinator.add.neighbours10k.${name}`, "ms", samples)
  );
}

/** 110 ADDs at once, and 110 DELs, until the last one has ended. */
async function atOnce(stage: Stage, log: Log): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const contestant of stage.contestants) {
    if (contestant.name === "alone") continue;
    log(`${WAVE} calls at once, ${contestant.name}`);
    const pods: Pod[] = [];
    for (let i = 0; i < WAVE; i++) pods.push(await makePod(stage, 1));
    for (const command of ["ADD", "DEL"] as const) {
      const startedMs = performance.now();
      await Promise.all(
        pods.map((pod) => call(stage, contestant, { command, pod })),
      );
      const name =
        `coordinator.wave110.${command.toLowerCase()}.${contestant.name}`;
      figures.push(figure(name, "ms", [performance.now() - startedMs]));
    }
    for (const { netns } of pods) await netns[Symbol.asyncDispose]();
  }
  return figures;
}

/** Memory of coild with 110 pods of two interfaces, a while after the last one. */
async function memoryFigures(stage: Stage): Promise<Figure[]> {
  const [ours] = stage.contestants;
  if (ours === undefined) return [];
  const before = memoryOf(stage.coild).residentMiB;
  const pods: Pod[] = [];
  for (let i = 0; i < WAVE; i++) {
    const pod = await makePod(stage, 2);
    pods.push(pod);
    for (const ifname of ["eth0", "net1"]) {
      await call(stage, ours, { command: "ADD", pod, ifname });
    }
  }
  await sleep(SETTLE_MS);
  const after = memoryOf(stage.coild).residentMiB;
  for (const { netns } of pods) await netns[Symbol.asyncDispose]();
  return [
    figure("coordinator.rss.coild", "MiB", [before]),
    figure("coordinator.rss.coild.110", "MiB", [after]),
  ];
}

/** ADD with probes, above one without: a free address, a gateway, and 110 at once. */
async function probes(stage: Stage): Promise<Figure[]> {
  const [ours] = stage.contestants;
  if (ours === undefined) return [];
  const timed = async (config: JsonObject) => {
    const samples: number[] = [];
    for (let i = 0; i < (stage.quick ? 3 : 20); i++) {
      samples.push(await addOnce(stage, ours, config));
    }
    return samples;
  };
  const conflict = await timed({ detectIPConflict: true });
  const gateway = await timed({ detectGateway: true });
  const pods: Pod[] = [];
  for (let i = 0; i < WAVE; i++) pods.push(await makePod(stage, 1));
  const config = { detectIPConflict: true };
  const startedMs = performance.now();
  await Promise.all(
    pods.map((pod) => call(stage, ours, { command: "ADD", pod, config })),
  );
  const elapsedMs = performance.now() - startedMs;
  for (const { netns } of pods) await netns[Symbol.asyncDispose]();
  return [
    figure("coordinator.add.conflict.coil", "ms", conflict),
    figure("coordinator.add.gateway.coil", "ms", gateway),
    figure("coordinator.wave110.conflict.coil", "ms", [elapsedMs]),
  ];
}

/** What ADD of a new pod takes, in ms. The pod goes again. */
async function addOnce(
  stage: Stage,
  contestant: Contestant,
  config: JsonObject = {},
): Promise<number> {
  const pod = await makePod(stage, 1);
  const ms = await call(stage, contestant, { command: "ADD", pod, config });
  await call(stage, contestant, { command: "DEL", pod });
  await pod.netns[Symbol.asyncDispose]();
  return ms;
}

let nextNumber = 20;

async function makePod({ lab }: Stage, interfaces: 1 | 2): Promise<Pod> {
  const number = nextNumber;
  nextNumber = number < 250 ? number + 1 : 20;
  const nics: readonly NicSpec[] = [
    { name: "eth0", network: 6, number },
    { name: "net1", network: 7, number },
  ];
  const { containerId, netns } = await lab.pod(nics.slice(0, interfaces));
  const sandbox = sandboxOf(netns.name, {
    namespace: "default",
    name: `pod-${number}`,
  });
  return { sandbox: { ...sandbox, containerId }, netns, number };
}

/** What one call took, in ms. */
async function call(
  { lab }: Stage,
  { name, plugin }: Contestant,
  { command, pod: { sandbox, number }, ifname = "eth0", config = {} }: {
    readonly command: "ADD" | "DEL";
    readonly pod: Pod;
    readonly ifname?: string;
    readonly config?: JsonObject;
  },
): Promise<number> {
  const answer = await callPlugin({
    plugin,
    command,
    nodeNetns: lab.host.name,
    sandbox: { ...sandbox, ifname },
    config: {
      cniVersion: "1.0.0",
      name: "bench",
      type: "coordinator",
      serviceCIDR: lab.families.map((family) => SERVICES[family]),
      // Upstream's own, which it wants to write.
      logOptions: {
        logLevel: "debug",
        logFile: "/var/log/spidernet/coordinator.log",
      },
      ...config,
      prevResult: {
        cniVersion: "1.0.0",
        interfaces: [{ name: ifname, sandbox: `/run/netns/${sandbox.netns}` }],
        ips: lab.families.map((family) => ({
          interface: 0,
          address: interfaceAddressIn(
            ifname === "eth0" ? 6 : 7,
            family,
            number,
          ),
        })),
      },
    },
  });
  if (answer.code !== 0) {
    throw new Error(`Cannot ${command} with ${name}: ${answer.stdout}`);
  }
  return answer.wallMs;
}

/** Of all calls that have ended, and of coild. */
function processorMs({ coild }: Stage): number {
  return (endedChildrenSeconds() + processorSeconds(coild)) * 1_000;
}
