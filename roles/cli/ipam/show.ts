import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
  oneOf,
} from "../../../lib/command/mod.ts";
import {
  type AddressRow,
  addressRows,
  blockRows,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import { tryPoolOf, vpcBlocksOf, type VpcNode } from "../../../lib/api/mod.ts";
import { defineFlags, UsageError } from "../../../lib/flags/mod.ts";
import { NAMESPACES, NODES } from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL, VPC_POOL } from "../../../lib/names/mod.ts";
import { ClusterReader, knownPools } from "./cluster_reader.ts";
import { CONNECTION_FLAGS, POOL_NAMES } from "../base/connection.ts";
import { poolRows } from "./rows.ts";
import { vpcPoolRows } from "./vpc_rows.ts";
import { addressColumns, blockColumns, poolColumns } from "./tables.ts";
import type { Column } from "../base/table.ts";
import {
  TABLE_FLAGS,
  type TableOutput,
  writeRows,
} from "../base/table_output.ts";

const SUBJECTS = ["pools", "blocks", "addresses"] as const;

const FLAGS = defineFlags({
  "pool": {
    type: "string",
    listedBy: POOL_NAMES,
    help: "Only this pool",
  },
  "node": { type: "string", help: "Only this node" },
  "namespace": {
    type: "string",
    short: "n",
    help: "Only addresses of this namespace's pods",
  },
  ...TABLE_FLAGS,
  ...CONNECTION_FLAGS,
});

/** `coil ipam show`: what is in use and by whom, from the API server alone. */
export const IPAM_SHOW: Command = defineCommand({
  path: "ipam show",
  about: "Show pools, blocks or addresses, and their owners",
  flags: FLAGS,
  details:
    "Shows address pools, blocks, or the addresses of pods. Reads only the API server.",
  positionals: `[${SUBJECTS.join("|")}]`,
  run: show,
});

interface Request extends TableOutput {
  readonly pool: string | undefined;
  readonly node: string | undefined;
  readonly namespace: string | undefined;
  readonly reader: ClusterReader;
}

async function show(
  { values, positionals: [word = "pools"], terminal }: Call<typeof FLAGS>,
): Promise<void> {
  const subject = oneOf(word, SUBJECTS);
  if (values.namespace !== "" && subject !== "addresses") {
    throw new UsageError(`--namespace is for addresses, not for ${subject}`);
  }
  using client = await connect(values);
  const request: Request = {
    pool: values.pool || undefined,
    node: values.node || undefined,
    namespace: values.namespace || undefined,
    output: values.output,
    headers: !values["no-headers"],
    reader: new ClusterReader(client, values["page-size"]),
    terminal,
  };
  await SHOW[subject](request);
}

const SHOW: Readonly<
  Record<typeof SUBJECTS[number], (request: Request) => Promise<void>>
> = {
  pools: showPools,
  blocks: showBlocks,
  addresses: showAddresses,
};

async function showPools(request: Request): Promise<void> {
  const { pool, node, reader } = request;
  const { pools, vpcNodes } = await knownPools(reader, pool);
  // All of them, also when one pool is shown: blocks of other pools may have addresses of this one.
  const blocks = await reader.blocks();
  const heldByNode = new Set(
    [...blocks, ...vpcNodes.flatMap(vpcBlocksOf)]
      .filter(({ metadata }) => metadata.labels?.[NODE_LABEL] === node)
      .map(({ metadata }) => metadata.labels?.[POOL_LABEL]),
  );
  const rows = [...poolRows(pools, blocks), ...vpcPoolRows(vpcNodes)]
    .filter(({ name }) =>
      (pool === undefined || name === pool) &&
      (node === undefined || heldByNode.has(name))
    );
  await write(request, "pools", rows, poolColumns);
}

async function showBlocks(request: Request): Promise<void> {
  const { pool, node, reader } = request;
  const { vpcNodes } = await knownPools(reader, pool);
  const [blocks, pods] = await Promise.all([
    reader.blocks({ pool, node }),
    reader.pods(),
  ]);
  const isShown = ({ metadata }: VpcNode) =>
    (pool === undefined || pool === VPC_POOL) &&
    (node === undefined || metadata.name === node);
  const all = [...blocks, ...vpcNodes.filter(isShown).flatMap(vpcBlocksOf)];
  await write(request, "blocks", blockRows(all, pods), blockColumns);
}

async function showAddresses(request: Request): Promise<void> {
  const { pool, node, namespace, reader } = request;
  const known = await knownPools(reader, pool);
  // A pool that cannot be read is shown as such by `pools`.
  const pools = known.pools.flatMap((pool) => tryPoolOf(pool) ?? []);
  // All of them, also when one pool is shown: who else has an address is not known before.
  const [blocks, pods] = await Promise.all([reader.blocks(), reader.pods()]);
  const rows = addressRows({
    pods,
    blocks: readableBlocks([
      ...blocks,
      ...known.vpcNodes.flatMap(vpcBlocksOf),
    ]),
    pools,
    vpcNodes: new Set(
      known.vpcNodes.map(({ metadata }) => metadata.name ?? ""),
    ),
  }).filter((row) =>
    (pool === undefined || row.pool === pool) &&
    (node === undefined || row.node === node) &&
    (namespace === undefined || row.namespace === namespace)
  );
  await write(request, "addresses", rows, addressColumns);
  warn(request, rows);
}

async function write<Row>(
  request: Request,
  subject: string,
  rows: readonly Row[],
  columns: (now: Date) => readonly Column<Row>[],
): Promise<void> {
  if (rows.length === 0) await checkNames(request, subject);
  writeRows(subject, rows, { ...request, columns });
}

/** @throws {CommandError} when nothing is shown because a name is wrong. */
async function checkNames(
  { node, namespace, reader }: Request,
  subject: string,
): Promise<void> {
  if (node !== undefined && !await reader.has(NODES, node)) {
    throw new CommandError(
      `Cannot show ${subject} of Node "${node}": it does not exist`,
    );
  }
  if (namespace !== undefined && !await reader.has(NAMESPACES, namespace)) {
    throw new CommandError(
      `Cannot show ${subject} of Namespace "${namespace}": it does not exist`,
    );
  }
}

const WARNINGS = {
  "duplicate": "an address that another pod also has",
  "no-block": "an address of a pool, but of no block",
  "other-node": "an address of another node's block",
} as const;

/** Describes what is wrong, as text. */
function warn(request: Request, rows: readonly AddressRow[]): void {
  for (const [state, what] of Object.entries(WARNINGS)) {
    const count = rows.filter((row) => row.state === state).length;
    if (count === 0) continue;
    const subject = count === 1 ? "1 pod has" : `${count} pods have`;
    request.terminal.err(`${subject} ${what}: see STATE ${state}\n`);
  }
}
