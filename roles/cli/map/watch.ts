import { ADDRESS_BLOCKS, VPC_NODES } from "../../../lib/api/mod.ts";
import {
  type Clock,
  Gate,
  jittered,
  sleep,
  systemClock,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import type { Terminal } from "../../../lib/command/mod.ts";
import {
  Informer,
  KubeApiError,
  type KubeClient,
  KubeUnreachableError,
  LIVE_PODS,
  PODS,
} from "../../../lib/kube/mod.ts";
import {
  addressesOf,
  type ClusterReader,
  transformBlock,
  transformPod,
  transformVpcNode,
} from "../ipam/cluster_reader.ts";
import type { MapSource } from "./pool_map.ts";

/** How long changes are gathered before the next picture, and how often to ask for pools. */
const REDRAW_MS = 1_000;
const LOOK_MS = 3_000;

/** Dependencies of {@linkcode watchMap}. */
export interface MapWatch {
  readonly client: KubeClient;
  readonly reader: Pick<ClusterReader, "pools">;
  readonly terminal: Terminal;
  readonly show: (source: MapSource) => string;
  /** Whether VPCNodes were listed at first. */
  readonly ofVpc: boolean;
  readonly clock?: Clock;
}

/** Clears a screen and goes to its first line: ED and CUP of ECMA-48. */
const CLEAR = "\u001b[H\u001b[2J\u001b[3J";

/** Shows what there is, and again whenever it is another, until the signal. */
export async function watchMap(
  { client, reader, terminal, show, ofVpc, clock = systemClock }: MapWatch,
  outer: AbortSignal | undefined,
): Promise<void> {
  await using tasks = new TaskGroup({ signal: outer });
  const { signal } = tasks;
  let changed = new Gate();
  const onChange = () => changed.open();
  const pods = new Informer(client, PODS, {
    fieldSelector: LIVE_PODS,
    transform: transformPod,
    onChange,
  });
  const blocks = new Informer(client, ADDRESS_BLOCKS, {
    transform: transformBlock,
    onChange,
  });
  const nodes = new Informer(client, VPC_NODES, {
    transform: transformVpcNode,
    onChange,
  });
  tasks.run("pods", (s) => pods.run(s));
  tasks.run("blocks", (s) => blocks.run(s));
  await Promise.all([pods.synced, blocks.synced]);
  // Where none was listed, there may be no such resource, or no right to read it.
  if (ofVpc) {
    tasks.run("VPCNodes", (s) => nodes.run(s));
    await nodes.synced;
  }
  let shown = "";
  let isAway = false;
  while (!signal.aborted) {
    changed = new Gate();
    const pools = await reader.pools().catch((error: unknown) => {
      if (!isOutage(error)) throw error;
      if (!isAway) terminal.err(`${error.message}: the picture is old\n`);
    });
    isAway = pools === undefined;
    const text = pools === undefined ? shown : show({
      pools,
      blocks: blocks.store.list(),
      pods: pods.store.list().flatMap((pod) => addressesOf(pod) ?? []),
      vpcNodes: ofVpc ? nodes.store.list() : [],
    });
    if (text !== shown) {
      terminal.out(`${terminal.isScreen ? CLEAR : ""}${text}`);
      shown = text;
    }
    await untilLater(changed, { signal, clock });
  }
}

function isOutage(error: unknown): error is Error {
  return error instanceof KubeUnreachableError ||
    error instanceof KubeApiError && error.isOutage;
}

/** Waits for a change, not long, after the time in which changes are gathered. */
async function untilLater(
  changed: Gate,
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
): Promise<void> {
  try {
    await sleep(jittered(REDRAW_MS), { signal, clock });
    await changed.waitAtMost(jittered(LOOK_MS), { signal, clock });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
