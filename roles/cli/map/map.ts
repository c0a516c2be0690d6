import { ADDRESS_BLOCKS, VPC_NODES } from "../../../lib/api/mod.ts";
import { Gate, jittered, sleep, TaskGroup } from "../../../lib/async/mod.ts";
import { defineFlags, UsageError } from "../../../lib/flags/mod.ts";
import {
  Informer,
  KubeApiError,
  type KubeClient,
  KubeUnreachableError,
  LIVE_PODS,
  PODS,
} from "../../../lib/kube/mod.ts";
import {
  type Call,
  type Command,
  defineCommand,
  type Terminal,
} from "../base/command.ts";
import { connect, CONNECTION_FLAGS, POOL_NAMES } from "../base/connection.ts";
import { CommandError } from "../base/errors.ts";
import { formatReportAs, OUTPUT_FLAG } from "../base/problem.ts";
import {
  addressesOf,
  ClusterReader,
  knownPools,
  noSuchPool,
  transformBlock,
  transformPod,
  transformVpcNode,
} from "../ipam/cluster_reader.ts";
import { formatMap } from "./picture.ts";
import { type MapSource, type PoolMap, poolMaps } from "./pool_map.ts";

/** How long changes are gathered before the next picture, and how often to ask for pools. */
const REDRAW_MS = 1_000;
const LOOK_MS = 3_000;

const FLAGS = defineFlags({
  "node": { type: "string", help: "Only blocks of this node" },
  "watch": {
    type: "bool",
    short: "w",
    help: "Draw again after each change, until Ctrl-C",
  },
  ...OUTPUT_FLAG,
  ...CONNECTION_FLAGS,
});

/** `coil ipam map`: a pool as a picture. */
export const IPAM_MAP: Command = defineCommand({
  path: "ipam map",
  about: "Draw the blocks and addresses of a pool",
  flags: FLAGS,
  argumentListedBy: POOL_NAMES,
  details:
    `Draws the blocks of a pool and the addresses of each block. Reads only the API
server. With -o json it says who holds each address.`,
  positionals: "POOL",
  run: map,
});

async function map(
  { values, positionals: [name], terminal, signal }: Call<typeof FLAGS>,
): Promise<number | void> {
  if (name === undefined) {
    throw new UsageError(
      "an argument is missing: needs the name of an AddressPool",
    );
  }
  using client = await connect(values);
  const reader = new ClusterReader(client, values["page-size"]);
  const colours = terminal.colours ?? false;
  const show = (source: MapSource) => {
    const map = mapOf(name, source, values.node);
    return formatReportAs(
      values.output,
      map,
      () => formatMap(map, { colours }),
    );
  };
  const { pools, vpcNodes } = await knownPools(reader, name);
  const [blocks, pods] = await Promise.all([reader.blocks(), reader.pods()]);
  const first = show({ pools, blocks, pods, vpcNodes });
  if (!values.watch) return terminal.out(first);
  const ofVpc = vpcNodes.length > 0;
  await watch({ client, reader, terminal, show, ofVpc }, signal);
}

/** @throws {CommandError} when there is no such pool, or its subnets cannot be read */
function mapOf(name: string, source: MapSource, node: string): PoolMap {
  const maps = poolMaps(source);
  const whole = maps.find(({ pool }) => pool.name === name);
  if (whole === undefined) {
    const existing = maps.map(({ pool }) => pool.name);
    throw noSuchPool(name, { verb: "show", existing });
  }
  const { blocks, message } = whole.pool;
  // There is nothing to count where the subnets cannot be read.
  if (blocks === undefined) throw new CommandError(message);
  const isShown = (row: { readonly node: string }) =>
    node === "" || row.node === node;
  return {
    ...whole,
    ...(whole.enis === undefined ? {} : { enis: whole.enis.filter(isShown) }),
    blocks: whole.blocks.filter(isShown),
    outside: whole.outside.filter(isShown),
  };
}

interface Watch {
  readonly client: KubeClient;
  readonly reader: ClusterReader;
  readonly terminal: Terminal;
  readonly show: (source: MapSource) => string;
  /** Whether VPCNodes were listed at first. */
  readonly ofVpc: boolean;
}

/** Clears a screen and goes to its first line: ED and CUP of ECMA-48. */
const CLEAR = "\u001b[H\u001b[2J\u001b[3J";

/** Shows what there is, and again whenever it is another, until the signal. */
async function watch(
  { client, reader, terminal, show, ofVpc }: Watch,
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
    await untilLater(changed, signal);
  }
}

function isOutage(error: unknown): error is Error {
  return error instanceof KubeUnreachableError ||
    error instanceof KubeApiError && error.isOutage;
}

/** Waits for a change, not long, after the time in which changes are gathered. */
async function untilLater(changed: Gate, signal: AbortSignal): Promise<void> {
  try {
    await sleep(jittered(REDRAW_MS), { signal });
    await changed.waitAtMost(jittered(LOOK_MS), { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
