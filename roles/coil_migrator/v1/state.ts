// What Coil v1 keeps in etcd, parsed. The keys, below the prefix: pool/NAME,
// block/POOL/SUBNET, ip/BLOCK/OFFSET, and subnet/ADDRESS, which says nothing
// that the pools do not say.
import { isJsonObject, type JsonObject } from "../../../lib/json/mod.ts";
import type { EtcdEntry } from "../../../lib/etcd/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { compareText } from "../../../lib/names/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";

/** A pool of v1; its name is also that of the namespace that uses it, but for "default". */
export interface V1Pool {
  readonly name: string;
  /** A block has 2 to the power of this many addresses. */
  readonly blockSizeBits: number;
  readonly subnets: readonly Prefix[];
}

/** A block that a node has. */
export interface V1Block {
  readonly pool: string;
  readonly node: string;
  readonly prefix: Prefix;
}

/** An address that a pod has, or had. */
export interface V1Address {
  readonly address: Address;
  /** `NAMESPACE/NAME` of the pod, where v1 wrote it down. */
  readonly pod: string | undefined;
}

/** All of v1's state. Sorted, so that the same state is the same data. */
export interface V1State {
  readonly pools: readonly V1Pool[];
  readonly blocks: readonly V1Block[];
  readonly addresses: readonly V1Address[];
}

/** The most bits that v1's blocks can have: IPv4 alone. */
const MAX_BLOCK_BITS = 32;

/**
 * Parses the entries below v1's prefix.
 *
 * @throws {CommandError} when one cannot be understood: what it says would be missing, and its addresses be given out again
 */
export function parseV1State(
  entries: readonly EtcdEntry[],
  options: { readonly prefix: string },
): V1State {
  const pools: V1Pool[] = [];
  const blocks: V1Block[] = [];
  const addresses: V1Address[] = [];
  for (const { key, value } of entries) {
    const rest = key.slice(options.prefix.length);
    const [kind, first = "", second, ...more] = rest.split("/");
    try {
      if (kind === "pool" && second === undefined) {
        pools.push(parsePool(first, value));
      } else if (kind === "block" && more.length === 0) {
        blocks.push(...parseBlocks(first, value));
      } else if (kind === "ip" && more.length === 0) {
        addresses.push(parseAddress(first, second ?? "", value));
      }
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw cause;
      throw new CommandError(
        `Cannot understand etcd's key "${key}": ${cause.message}`,
        { cause },
      );
    }
  }
  return {
    pools: pools.toSorted((a, b) => compareText(a.name, b.name)),
    blocks: unique(blocks).toSorted((a, b) =>
      compareText(a.pool, b.pool) || a.prefix.compare(b.prefix) ||
      compareText(a.node, b.node)
    ),
    addresses: addresses.toSorted((a, b) => a.address.compare(b.address)),
  };
}

function parsePool(name: string, value: string): V1Pool {
  const { subnets, block_size: bits } = parseObject(value);
  if (name === "") throw new SyntaxError("the pool has no name");
  const isBits = typeof bits === "number" && Number.isInteger(bits) &&
    bits >= 0 && bits <= MAX_BLOCK_BITS;
  if (!isBits) {
    throw new SyntaxError(
      `block_size is ${JSON.stringify(bits)}, not a number from 0 to 32`,
    );
  }
  return {
    name,
    blockSizeBits: bits,
    subnets: parseTexts(subnets, "subnets").map(parsePrefix),
  };
}

function parseBlocks(pool: string, value: string): V1Block[] {
  const { nodes } = parseObject(value);
  // Go writes null for what is empty.
  if (nodes === null || nodes === undefined) return [];
  if (!isJsonObject(nodes)) throw new SyntaxError("nodes is not an object");
  return Object.entries(nodes).flatMap(([node, list]) =>
    parseTexts(list, `nodes of "${node}"`).map((cidr) => ({
      pool,
      node,
      prefix: parsePrefix(cidr),
    }))
  );
}

/** v1 has IPv4 alone. */
function parsePrefix(cidr: string): Prefix {
  const prefix = Prefix.parse(cidr);
  if (prefix.family === "ipv4") return prefix;
  throw new SyntaxError(`"${cidr}" is not a valid IPv4 CIDR`);
}

function parseAddress(
  block: string,
  offset: string,
  value: string,
): V1Address {
  if (!/^[0-9]{1,10}$/.test(offset)) {
    throw new SyntaxError(`"${offset}" is not an offset in a block`);
  }
  const base = Address.parse(block);
  try {
    return { address: base.offset(BigInt(offset)), pod: podOf(value) };
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new SyntaxError(`offset ${offset} is not in the block`, { cause });
  }
}

/** Before v1.0.2 the value was the text `NAMESPACE/NAME`. */
function podOf(value: string): string | undefined {
  if (!value.startsWith("{")) {
    return /^[^/]+\/[^/]+$/.test(value) ? value : undefined;
  }
  const { namespace, pod } = parseObject(value);
  return typeof namespace === "string" && typeof pod === "string"
    ? `${namespace}/${pod}`
    : undefined;
}

function parseObject(text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  if (isJsonObject(value)) return value;
  throw new SyntaxError("it is not a JSON object");
}

function parseTexts(value: unknown, what: string): string[] {
  if (value === null || value === undefined) return [];
  if (!Array.isArray(value) || value.some((v) => typeof v !== "string")) {
    throw new SyntaxError(`${what} is not a list of texts`);
  }
  return value;
}

/** A node's list may name a block twice. */
function unique(blocks: readonly V1Block[]): V1Block[] {
  return [
    ...new Map(blocks.map((b) => [`${b.pool} ${b.node} ${b.prefix}`, b]))
      .values(),
  ];
}
