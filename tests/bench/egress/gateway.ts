// A gateway's start, its memory, and how soon it serves a new client: the same
// on the machine itself and in the virtual one.
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { inNetns } from "../../lab/mod.ts";
import type { LabProcess } from "../../lab/process.ts";
import { eventually } from "../../lab/wait.ts";
import { isReady } from "../../vm/e2e_kubelet.ts";
import { memoryOf } from "../process_memory.ts";
import type { Samples } from "./samples.ts";
import { EGRESS, removeClient, reportClient } from "./objects.ts";

/** The clients that every gateway here has when it starts. */
export const CLIENTS = 1_000;
const HEALTH_PORT = 8081;
const READY_MS = 120_000;
/** The garbage of the start is given back in the meantime. */
const REST_MS = 30_000;

/** A gateway that runs. */
export interface GatewayRun extends AsyncDisposable {
  readonly process: LabProcess;
  readonly netns: string;
  /** From the start of the process to its readiness. */
  readonly readyMs: number;
}

/** Starts gateways, each in a network of its own. */
export interface GatewaySite {
  readonly client: KubeClient;
  /** How often to look; looking costs the virtual machine much. */
  readonly lookMs: number;
  /** Makes the network, and says how to start the process in it. */
  prepare(number: number): Promise<{
    readonly netns: string;
    readonly addresses: readonly string[];
    start(env: Readonly<Record<string, string>>): Promise<LabProcess>;
    remove(): Promise<void>;
  }>;
}

/** The clients that get their addresses while a gateway runs, as numbers. */
export interface Spare {
  readonly from: number;
  readonly count: number;
}

/** Starts gateways one after the other, and looks closer at the last one. */
export async function gatewaySamples(
  site: GatewaySite,
  options: { readonly starts: number; readonly spare?: Spare },
): Promise<Samples> {
  const { starts, spare } = options;
  const readyMs: number[] = [];
  const start = async (number: number): Promise<GatewayRun> => {
    const run = await startGateway(site, number);
    readyMs.push(run.readyMs);
    return run;
  };
  for (let number = 0; number < starts - 1; number++) {
    await using _run = await start(number);
  }
  await using last = await start(starts - 1);
  const { residentMiB, peakMiB } = await memoryAtRest(last);
  const newMs = spare && await newClientTimes(site, last, spare);
  return {
    ready: { unit: "ms", samples: readyMs },
    resident: { unit: "MiB", samples: [residentMiB] },
    peak: { unit: "MiB", samples: [peakMiB] },
    ...(newMs === undefined ? {} : { new: { unit: "ms", samples: newMs } }),
  };
}

/** Starts the gateway of this number and waits until it is ready. */
export async function startGateway(
  site: GatewaySite,
  number: number,
): Promise<GatewayRun> {
  const place = await site.prepare(number);
  const { netns, addresses } = place;
  const startMs = performance.now();
  const process = await place.start({
    COIL_POD_NAMESPACE: EGRESS.namespace,
    COIL_EGRESS_NAME: EGRESS.name,
    COIL_POD_NAME: `${EGRESS.name}-${number}`,
    COIL_POD_ADDRESSES: addresses.join(","),
  });
  await eventually("the gateway to be ready", async () => {
    if (!process.isRunning) throw new Error(await process.logs());
    return await isReady(addresses[0] ?? "", HEALTH_PORT);
  }, { timeoutMs: READY_MS, intervalMs: site.lookMs });
  const readyMs = performance.now() - startMs;
  await expectClients(netns, CLIENTS);
  return {
    process,
    netns,
    readyMs,
    async [Symbol.asyncDispose](): Promise<void> {
      await process.kill9();
      await place.remove();
    },
  };
}

/** From the kubelet's report of a new client to the end of the change in the kernel, in ms, one by one. */
async function newClientTimes(
  { client, lookMs }: GatewaySite,
  { process, netns }: GatewayRun,
  { from, count }: Spare,
): Promise<number[]> {
  const numbers = Array.from({ length: count }, (_, i) => from + i);
  const times: number[] = [];
  for (const number of numbers) {
    const startMs = Date.now();
    const address = await reportClient(client, number);
    const endMs = await eventually(
      `client ${address}`,
      async () => changedAt(await process.logs(), address),
      {
        timeoutMs: READY_MS,
        intervalMs: lookMs,
      },
    );
    times.push(endMs - startMs);
  }
  await expectClients(netns, CLIENTS + numbers.length);
  for (const number of numbers) await removeClient(client, number);
  return times;
}

/** When the log says that the address came into the kernel, in ms since the epoch. */
function changedAt(log: string, address: string): number | undefined {
  for (const line of log.split("\n").toReversed()) {
    if (!line.includes("Changed clients")) continue;
    if (!line.includes(`"${address}"`)) continue;
    const seconds = Number(JSON.parse(line)["ts"]);
    return seconds * 1000;
  }
  return undefined;
}

/** The log may say what it likes: this asks the kernel. */
async function expectClients(
  netns: string,
  wanted: number,
): Promise<void> {
  for (const set of ["clients4", "clients6"]) {
    const text = await inNetns(netns, "nft", [
      ...["-j", "list", "set", "inet", "coil", set],
    ]);
    const { nftables } = JSON.parse(text) as {
      nftables: readonly { set?: { elem?: readonly unknown[] } }[];
    };
    const found = nftables.find((row) => row.set !== undefined)?.set?.elem;
    if (found?.length === wanted) continue;
    throw new Error(
      `Cannot trust the figures: set ${set} has ${found?.length} clients, not ${wanted}`,
    );
  }
}

/** Resident memory at rest and its highest mark so far, in MiB. */
async function memoryAtRest(
  { process }: GatewayRun,
): Promise<{ residentMiB: number; peakMiB: number }> {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const status = await Deno.readTextFile(`/proc/${process.pid}/status`);
  const peakKiB = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]);
  const { residentMiB } = memoryOf(process.pid);
  return { residentMiB, peakMiB: peakKiB / 1024 };
}
