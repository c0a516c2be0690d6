import { DEFAULT_BLOCK_SIZE_BITS, FINALIZER } from "../../names/mod.ts";
import {
  type Address,
  type AddressRange,
  type DualStack,
  FAMILIES,
  mapDualStack,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import type { AddressPool, SubnetSpec } from "./address_pool.ts";
import { parseReserved } from "./reserved_entries.ts";

/** A subnet of a pool, parsed: one prefix, or one of each family with equally many addresses. */
export type Subnet = DualStack<Prefix>;

/** A parsed {@linkcode AddressPool}. */
export interface Pool {
  /** Name of the object. */
  readonly name: string;
  /** UID of the object; a later object of the same name has another. */
  readonly uid: string;
  /** Counts the changes of the spec, from 1. */
  readonly generation: number;
  /** A block has 2 to the power of this many addresses. */
  readonly blockSizeBits: number;
  /** Subnets in the order of the spec, which is that of the blocks' indices. */
  readonly subnets: readonly Subnet[];
  /** Addresses that are never given. */
  readonly reserved: readonly AddressRange[];
  /** Whether the pool has a deletion timestamp. */
  readonly deleting: boolean;
  /** Whether the pool is paused. */
  readonly paused: boolean;
  /** Whether Coil's finalizer is on the pool. */
  readonly finalized: boolean;
}

/** The part of a {@linkcode Pool} that its blocks are computed from. */
export type PoolLayout = Pick<Pool, "blockSizeBits" | "subnets">;

/** A pool has no more blocks than indices fit the int32 of an AddressBlock. */
export const MAX_BLOCKS: number = 2 ** 31;

/**
 * Parses an AddressPool.
 *
 * @throws {SyntaxError} when a subnet or a reserved range is malformed, or a subnet smaller than a block.
 * The API server refuses such pools, but one may be older than its rules.
 */
export function poolOf(object: AddressPool): Pool {
  const { metadata, spec } = object;
  const name = metadata.name ?? "";
  const blockSizeBits = spec.blockSizeBits ?? DEFAULT_BLOCK_SIZE_BITS;
  const subnets = spec.subnets.map((entry, index) =>
    parsed(
      `Cannot read AddressPool "${name}": spec.subnets[${index}]: `,
      () => parseSubnet(entry, { blockSizeBits }),
    )
  );
  return {
    name,
    uid: metadata.uid ?? "",
    generation: metadata.generation ?? 0,
    blockSizeBits,
    subnets,
    reserved: parsed(
      `Cannot read AddressPool "${name}": `,
      () => parseReserved(spec.reserved),
    ),
    deleting: metadata.deletionTimestamp !== undefined,
    paused: spec.paused === true,
    finalized: metadata.finalizers?.includes(FINALIZER) ?? false,
  };
}

/** Says where in the object a text could not be parsed. */
function parsed<T>(where: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new SyntaxError(`${where}${cause.message}`, { cause });
  }
}

/** Parses an AddressPool, or returns undefined where {@linkcode poolOf} throws. */
export function tryPoolOf(object: AddressPool): Pool | undefined {
  try {
    return poolOf(object);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether two are the same object with the same subnets. */
export function hasSameLayout(a: Pool, b: Pool | undefined): boolean {
  return b !== undefined && a.uid === b.uid && a.generation === b.generation;
}

/** What the addresses of a pool's blocks follow from, as a text to compare by. */
export function layoutText({ uid, blockSizeBits, subnets }: Pool): string {
  return [uid, blockSizeBits, ...subnets.map((s) => valuesOf(s).join(" "))]
    .join();
}

/**
 * Parses one entry of a pool's subnets. Host bits are allowed and cleared.
 *
 * @throws {SyntaxError} when neither family is there, a CIDR is malformed or
 * of the wrong family, it is smaller than a block, or the families differ in
 * size. The same rules are in `crds/`, where the API server applies them.
 */
export function parseSubnet(
  entry: SubnetSpec,
  options: { readonly blockSizeBits: number },
): Subnet {
  const subnet: { ipv4?: Prefix; ipv6?: Prefix } = {};
  for (const family of FAMILIES) {
    const text = entry[family];
    if (text === undefined) continue;
    const prefix = Prefix.tryParse(text);
    if (prefix?.family !== family) {
      throw new SyntaxError(`invalid ${family} subnet: "${text}"`);
    }
    if (prefix.hostBits < options.blockSizeBits) {
      throw new SyntaxError(`too narrow subnet: "${text}"`);
    }
    subnet[family] = prefix;
  }
  const [first, second] = valuesOf(subnet);
  if (first === undefined) {
    throw new SyntaxError("invalid subnet: neither ipv4 nor ipv6 is given");
  }
  if (second !== undefined && second.hostBits !== first.hostBits) {
    throw new SyntaxError("dual stack subnet must be the same size");
  }
  return subnet;
}

/** Returns which families a subnet has. */
export function stackOf(
  subnet: DualStack<unknown>,
): "ipv4" | "ipv6" | "dual" | "none" {
  if (subnet.ipv4 === undefined) {
    return subnet.ipv6 === undefined ? "none" : "ipv6";
  }
  return subnet.ipv6 === undefined ? "ipv4" : "dual";
}

/** Whether two subnets have the same families and the same addresses. */
export function subnetEquals(a: Subnet, b: Subnet): boolean {
  return FAMILIES.every((family) => {
    const left = a[family];
    const right = b[family];
    if (left === undefined || right === undefined) return left === right;
    return left.equals(right);
  });
}

/** How many blocks of 2^`blockSizeBits` addresses a subnet has. */
export function subnetCapacity(subnet: Subnet, blockSizeBits: number): bigint {
  const [prefix] = valuesOf(subnet);
  if (prefix === undefined || prefix.hostBits < blockSizeBits) return 0n;
  return 1n << BigInt(prefix.hostBits - blockSizeBits);
}

/** A subnet with the indices of its blocks. */
export interface IndexedSubnet {
  readonly subnet: Subnet;
  /** Index of the first block. */
  readonly start: number;
  /** Index after the last block. */
  readonly end: number;
}

/** The subnets of a pool in order, with the indices of their blocks: of at most {@linkcode MAX_BLOCKS} in all. */
export function indexedSubnets(
  { subnets, blockSizeBits }: PoolLayout,
): IndexedSubnet[] {
  let start = 0;
  return subnets.map((subnet) => {
    const capacity = subnetCapacity(subnet, blockSizeBits);
    const room = MAX_BLOCKS - start;
    const end = start + (capacity > BigInt(room) ? room : Number(capacity));
    const indexed = { subnet, start, end };
    start = end;
    return indexed;
  });
}

/** How many blocks can be allocated from a pool: those of its subnets, at most {@linkcode MAX_BLOCKS}. */
export function poolCapacity(pool: PoolLayout): number {
  return indexedSubnets(pool).at(-1)?.end ?? 0;
}

/**
 * Returns the addresses of a block of a pool, walking its subnets in order,
 * or undefined past the last one.
 *
 * @throws {RangeError} when the index is not an integer or negative.
 */
export function blockPrefixes(
  pool: PoolLayout,
  index: number,
): DualStack<Prefix> | undefined {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw new RangeError(`Cannot locate block: index is ${index}`);
  }
  if (index >= MAX_BLOCKS) return undefined;
  let rest = BigInt(index);
  for (const subnet of pool.subnets) {
    const blocks = subnetCapacity(subnet, pool.blockSizeBits);
    if (rest < blocks) {
      return subnetBlock(subnet, {
        blockSizeBits: pool.blockSizeBits,
        index: rest,
      });
    }
    rest -= blocks;
  }
  return undefined;
}

/** Index of the block of a pool that has the address; undefined when none has. */
export function blockIndexOf(
  pool: PoolLayout,
  address: Address,
): number | undefined {
  let base = 0n;
  for (const subnet of pool.subnets) {
    const prefix = subnet[address.family];
    if (prefix?.contains(address)) {
      const index = base +
        (prefix.indexOf(address) >> BigInt(pool.blockSizeBits));
      return index < BigInt(MAX_BLOCKS) ? Number(index) : undefined;
    }
    base += subnetCapacity(subnet, pool.blockSizeBits);
  }
  return undefined;
}

/**
 * Returns the block with an index counted from the start of a subnet. It does
 * not check that the block lies inside the subnet.
 */
export function subnetBlock(
  subnet: Subnet,
  options: { readonly blockSizeBits: number; readonly index: bigint },
): DualStack<Prefix> {
  const offset = options.index << BigInt(options.blockSizeBits);
  return mapDualStack(subnet, ({ address }) =>
    Prefix.of(
      address.offset(offset),
      address.bits - options.blockSizeBits,
    ));
}
