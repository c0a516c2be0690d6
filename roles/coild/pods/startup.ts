import {
  abortable,
  Backoff,
  type Gate,
  type KeyedMutex,
  retry,
} from "../../../lib/async/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { PodLink, PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Supply } from "../blocks/supply.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { NodeAddressFollower } from "../cluster/node_addresses.ts";
import type { NodeSource } from "../cluster/node_source.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import type { Readiness } from "../observe/readiness.ts";
import type { RouteRepair } from "../network/route_repair.ts";
import type { SourceGuard } from "../network/source_guard.ts";

const log = getLogger("setup");

/** How often a start that waits says for what. */
const REMIND_MS = 10_000;

/** What the start waits for before the first ADD, in words for an admin. */
export const START_CONDITIONS = {
  kernel: "the kernel's forwarding and routing rules are being set up",
  api: "the API server has not answered yet",
  addresses: "the node's address blocks and pods are being read",
} as const;

export interface StartupOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  readonly node: NodeSource;
  readonly pods: PodSource;
  readonly blocks: Pick<Supply, "synced" | "rests">;
  readonly locks: KeyedMutex;
  readonly addresses: NodeAddressFollower;
  readonly repair: RouteRepair;
  readonly sources: Pick<SourceGuard, "ensureTable">;
  readonly readiness: Readiness;
  /** Is opened when the kernel is set up. */
  readonly prepared: Gate;
}

/**
 * Brings the daemon from open socket to readiness, and never gives up: an API
 * server that is away at start is waited for. Until then DEL and CHECK are
 * served from the kernel, and ADD's error says what is waited for.
 *
 * The kernel is read once more after the addresses were recovered, so that a
 * DEL that came in between is not forgotten.
 */
export async function start(
  options: StartupOptions,
  { signal }: { signal: AbortSignal },
): Promise<void> {
  const { blocks, ipam, network, node, pods, readiness, repair } = options;
  const { sources } = options;
  using _reminder = remind(readiness);
  await insist("set up the kernel", signal, async () => {
    await network.init();
    await sources.ensureTable();
    // Not one address is known yet; they are given out only after this.
    const husks = await network.finishHusks();
    if (husks > 0) log.info("Finished interrupted DELs", { husks });
  });
  readiness.met("kernel");
  options.prepared.open();
  // The kernel's part of this is done at once, so that DEL finds addresses.
  const found = await repair.complete(await network.list());
  const resting = await insist(
    "read which addresses rest",
    signal,
    async () => await blocks.rests?.list() ?? [],
  );
  await Promise.all([
    ipam.start(found, { signal, resting }),
    abortable(
      Promise.all([node.synced, pods.synced(), blocks.synced]),
      signal,
    ).then(() => readiness.met("api")),
  ]);
  await forgetDeleted(options, found, signal);
  options.addresses.publish();
  await repair.repair(await network.list(), { signal });
  readiness.met("addresses");
  log.info("Ready to serve pods", { node: node.name });
}

/** Releases what DEL took from the kernel while the addresses were recovered. */
async function forgetDeleted(
  { ipam, locks, network }: StartupOptions,
  found: readonly PodLink[],
  signal: AbortSignal,
): Promise<void> {
  const present = new Set((await network.list()).map(keyText));
  for (const pod of found) {
    if (present.has(keyText(pod))) continue;
    using _lock = await locks.lock(keyText(pod), { signal });
    const releasing = ipam.beginRelease(pod);
    if (releasing !== undefined) await ipam.finishRelease(releasing);
  }
}

async function insist<T>(
  what: string,
  signal: AbortSignal,
  fn: () => Promise<T>,
): Promise<T> {
  return await retry(fn, {
    signal,
    backoff: new Backoff({ initialMs: 100, maxMs: 5_000 }),
    shouldRetry: (error) => {
      log.warn(`Cannot ${what} yet`, { err: error });
      return true;
    },
  });
}

function remind(readiness: Readiness): Disposable {
  const timer = setInterval(() => {
    log.warn("Still starting", { reason: readiness.reason });
  }, REMIND_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
