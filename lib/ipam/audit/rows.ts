import {
  type AddressBlock,
  type Block,
  type Pool,
  tryBlockOf,
} from "../../api/mod.ts";
import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import {
  compareText,
  NODE_LABEL,
  POOL_LABEL,
  VPC_POOL,
} from "../../names/mod.ts";
import { blockFinder, poolFinder, readableBlocks } from "./block_index.ts";

/** The parts of a pod that an audit reads. */
export interface PodAddresses {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly addresses: DualStack<Address>;
  /** RFC 3339 time. */
  readonly since?: string;
}

/** One block and who holds it. */
export interface BlockRow {
  readonly name: string;
  readonly pool: string;
  readonly node: string;
  readonly index: number;
  readonly ipv4?: string;
  readonly ipv6?: string;
  /** Addresses in it; a decimal number as text. */
  readonly size?: string;
  /** Addresses of it that pods hold. */
  readonly used: number;
  readonly state: "active" | "deleting" | "reserved" | "unreadable";
  /** RFC 3339 time. */
  readonly created?: string;
}

/**
 * Whether an address is where it belongs. `no-block`: in a pool's subnet, but
 * in no block. `other-node`: in a block that another node holds. `foreign`: in
 * no pool, so not Coil's. `duplicate`: another pod has it too.
 */
export type AddressVerdict =
  | "ok"
  | "duplicate"
  | "no-block"
  | "other-node"
  | "foreign";

/** The addresses of one pod. */
export interface AddressRow {
  readonly ipv4?: string;
  readonly ipv6?: string;
  readonly namespace: string;
  readonly pod: string;
  readonly node: string;
  readonly pool?: string;
  readonly block?: string;
  readonly state: AddressVerdict;
  /** RFC 3339 time: since when the pod runs. */
  readonly since?: string;
}

/** Computes the rows of blocks, with how many of their addresses pods hold. */
export function blockRows(
  blocks: readonly AddressBlock[],
  pods: Iterable<PodAddresses>,
): BlockRow[] {
  const find = blockFinder(readableBlocks(blocks));
  const used = new Map<string, Set<bigint>>();
  for (const { addresses } of pods) {
    for (const address of valuesOf(addresses)) {
      const block = find(address);
      const [prefix] = valuesOf(block?.prefixes ?? {}).filter((p) =>
        p.contains(address)
      );
      if (block === undefined || prefix === undefined) continue;
      // Both addresses of a dual-stack pod have one index.
      used.getOrInsertComputed(block.name, () => new Set())
        .add(prefix.indexOf(address));
    }
  }
  const rows = blocks.map((object): BlockRow => {
    const block = tryBlockOf(object);
    const name = object.metadata.name ?? "";
    return {
      name,
      pool: labelOf(object, POOL_LABEL),
      node: labelOf(object, NODE_LABEL),
      index: object.index,
      ...definedOnly({ ipv4: object.ipv4, ipv6: object.ipv6 }),
      ...sizeOf(block),
      used: used.get(name)?.size ?? 0,
      state: stateOf(block),
      ...definedOnly({ created: object.metadata.creationTimestamp }),
    };
  });
  return rows.sort((a, b) =>
    compareText(a.pool, b.pool) || compareText(scopeOf(a), scopeOf(b)) ||
    a.index - b.index
  );
}

/** Where a block's index counts: a pool of the VPC has one of each node. */
function scopeOf({ pool, node }: BlockRow): string {
  return pool === VPC_POOL ? node : "";
}

function sizeOf(block: Block | undefined): { size?: string } {
  const [prefix] = valuesOf(block?.prefixes ?? {});
  return prefix === undefined ? {} : { size: prefix.size.toString() };
}

function stateOf(block: Block | undefined): BlockRow["state"] {
  if (block === undefined) return "unreadable";
  if (block.deleting) return "deleting";
  return block.reserved ? "reserved" : "active";
}

/** Input of {@linkcode addressRows}. */
export interface AddressSource {
  readonly pods: readonly PodAddresses[];
  readonly blocks: readonly Block[];
  readonly pools: readonly Pool[];
  /** Names of nodes whose pods have addresses of the VPC. */
  readonly vpcNodes?: ReadonlySet<string>;
}

/** Computes the rows of pods' addresses, in the order of the addresses. */
export function addressRows(source: AddressSource): AddressRow[] {
  const find = placeFinder(source);
  return source.pods.toSorted(byAddress).map((pod) => rowOf(pod, find(pod)));
}

/** As {@linkcode addressRows}, without those that are where they belong: of a large cluster nearly all. */
export function oddAddressRows(source: AddressSource): AddressRow[] {
  const find = placeFinder(source);
  return source.pods.filter((pod) => find(pod).state !== "ok")
    .toSorted(byAddress).map((pod) => rowOf(pod, find(pod)));
}

/** Where the addresses of a pod are. */
interface Place {
  readonly state: AddressVerdict;
  readonly block: Block | undefined;
  readonly pool: string | undefined;
}

function placeFinder(
  { pods, blocks, pools, vpcNodes = new Set() }: AddressSource,
): (pod: PodAddresses) => Place {
  const findBlock = blockFinder(blocks);
  const findPool = poolFinder(pools);
  const holders = new Map<bigint | string, number>();
  for (const { addresses } of pods) {
    for (const address of valuesOf(addresses)) {
      const key = keyOf(address);
      holders.set(key, (holders.get(key) ?? 0) + 1);
    }
  }
  return (pod) => {
    const addresses = valuesOf(pod.addresses);
    const found = addresses.map(findBlock);
    const isOfVpc = vpcNodes.has(pod.node);
    const names = addresses.map((address) =>
      isOfVpc ? VPC_POOL : findPool(address)?.name
    );
    const [block] = found;
    const pool = names.find((name) => name !== undefined);
    return {
      block,
      pool: block?.pool ?? pool,
      state: addressState(pod, {
        blocks: found,
        hasPool: pool !== undefined,
        isShared: addresses.some((a) => (holders.get(keyOf(a)) ?? 0) > 1),
      }),
    };
  };
}

/** Of an IPv4 address its number, which no text has to be made for. */
function keyOf(address: Address): bigint | string {
  return address.family === "ipv4" ? address.value : address.toString();
}

function rowOf(pod: PodAddresses, { state, block, pool }: Place): AddressRow {
  return {
    ...definedOnly({
      ipv4: pod.addresses.ipv4?.toString(),
      ipv6: pod.addresses.ipv6?.toString(),
    }),
    namespace: pod.namespace,
    pod: pod.name,
    node: pod.node,
    ...definedOnly({ pool, block: block?.name }),
    state,
    ...definedOnly({ since: pod.since }),
  };
}

function addressState(
  pod: PodAddresses,
  found: {
    readonly blocks: readonly (Block | undefined)[];
    readonly hasPool: boolean;
    readonly isShared: boolean;
  },
): AddressVerdict {
  if (found.isShared) return "duplicate";
  if (found.blocks.includes(undefined)) {
    const isOurs = found.hasPool || found.blocks.some((b) => b !== undefined);
    return isOurs ? "no-block" : "foreign";
  }
  return found.blocks.every((block) => block?.node === pod.node)
    ? "ok"
    : "other-node";
}

function byAddress(a: PodAddresses, b: PodAddresses): number {
  const [left] = valuesOf(a.addresses);
  const [right] = valuesOf(b.addresses);
  if (left === undefined || right === undefined) return 0;
  if (left.family !== right.family) return left.family === "ipv4" ? -1 : 1;
  return left.compare(right) ||
    compareText(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`);
}

/** The value of a label; "" where a block has none. */
export function labelOf(block: AddressBlock, key: string): string {
  return block.metadata.labels?.[key] ?? "";
}

/** Leaves out the fields that are undefined. */
export function definedOnly<T extends object>(
  fields: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return parseDefined(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  );
}

/** The one place where the fields that are left get their static types. */
function parseDefined<T>(entries: readonly [string, unknown][]): T {
  return Object.fromEntries(entries) as T;
}
