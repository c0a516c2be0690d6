import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
} from "../../../lib/command/mod.ts";
import { defineFlags, UsageError } from "../../../lib/flags/mod.ts";
import { CONNECTION_FLAGS, POOL_NAMES } from "../base/connection.ts";
import { formatReportAs, OUTPUT_FLAG } from "../base/problem.ts";
import {
  ClusterReader,
  knownPools,
  noSuchPool,
} from "../ipam/cluster_reader.ts";
import { formatMap } from "./picture.ts";
import { type MapSource, type PoolMap, poolMaps } from "./pool_map.ts";
import { watchMap } from "./watch.ts";

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
  await watchMap({ client, reader, terminal, show, ofVpc }, signal);
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
