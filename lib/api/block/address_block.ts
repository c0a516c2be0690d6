import {
  FINALIZER,
  GROUP_VERSION,
  NODE_ADDRESSES_ANNOTATION,
  NODE_LABEL,
  POOL_LABEL,
  REQUEST_LABEL,
  RESERVED_LABEL,
} from "../../names/mod.ts";
import {
  Address,
  type DualStack,
  FAMILIES,
  type Family,
  mapDualStack,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import type { ObjectMeta, V1Node } from "../../kube/mod.ts";
import { blockPrefixes, type Pool } from "../pool/pool.ts";

/** A block of addresses that one node holds, cluster scoped; it has no spec. */
export interface AddressBlock {
  readonly apiVersion: typeof GROUP_VERSION;
  /** The kind of the object. */
  readonly kind: "AddressBlock";
  /** Name, labels, finalizer; the pool is its owner. */
  readonly metadata: ObjectMeta;
  /** Position of the block in its pool, from 0. */
  readonly index: number;
  /** CIDR of its IPv4 addresses. */
  readonly ipv4?: string;
  /** CIDR of its IPv6 addresses; as many as of IPv4, if it has both. */
  readonly ipv6?: string;
}

/** A parsed {@linkcode AddressBlock}. */
export interface Block {
  /** Name of the object. */
  readonly name: string;
  /** UID of the object; a later object of the same name has another. */
  readonly uid: string;
  /** Version of the object that was parsed. */
  readonly resourceVersion: string;
  /** Name of the pool it was allocated from. */
  readonly pool: string;
  /** Name of the node that holds it. */
  readonly node: string;
  /** UID of the BlockRequest the block answers; absent on blocks taken over from Coil v1. */
  readonly request?: string;
  /** Position of the block in its pool, from 0. */
  readonly index: number;
  /** Its addresses: one prefix, or one of each family with equally many. */
  readonly prefixes: DualStack<Prefix>;
  /** Whether the block was taken over from Coil v1: nothing is handed out of it. */
  readonly reserved: boolean;
  /** Whether the block has a deletion timestamp. */
  readonly deleting: boolean;
  /** Whether Coil's finalizer is on the block. */
  readonly finalized: boolean;
}

/**
 * Parses an AddressBlock.
 *
 * @throws {SyntaxError} when a CIDR or a label is missing or malformed, or
 * the two families have different sizes. The message names the block.
 */
export function blockOf(object: AddressBlock): Block {
  const { metadata } = object;
  const name = metadata.name ?? "";
  const labels = metadata.labels ?? {};
  const prefixes = parsePrefixes(name, object);
  return {
    name,
    uid: metadata.uid ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
    pool: requireLabel(object, POOL_LABEL),
    node: requireLabel(object, NODE_LABEL),
    ...optional("request", labels[REQUEST_LABEL]),
    index: object.index,
    prefixes,
    reserved: labels[RESERVED_LABEL] === "true",
    deleting: metadata.deletionTimestamp !== undefined,
    finalized: metadata.finalizers?.includes(FINALIZER) ?? false,
  };
}

/** Parses an AddressBlock, or returns undefined where {@linkcode blockOf} throws. */
export function tryBlockOf(object: AddressBlock): Block | undefined {
  try {
    return blockOf(object);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Name of the AddressBlock with an index of a pool. */
export function addressBlockName(pool: string, index: number): string {
  return `${pool}-${index}`;
}

/**
 * Returns the AddressBlock to create for an index of a pool, or undefined
 * when the pool has no such index.
 */
export function newAddressBlock(
  pool: Pool,
  options: {
    readonly index: number;
    readonly node: string;
    readonly requestUid: string;
    /** See {@linkcode nodeAddressesOf}; none if they are not known. */
    readonly nodeAddresses?: string | undefined;
  },
): AddressBlock | undefined {
  const prefixes = blockPrefixes(pool, options.index);
  if (prefixes === undefined) return undefined;
  return {
    apiVersion: GROUP_VERSION,
    kind: "AddressBlock",
    metadata: {
      name: addressBlockName(pool.name, options.index),
      labels: {
        [POOL_LABEL]: pool.name,
        [NODE_LABEL]: options.node,
        [REQUEST_LABEL]: options.requestUid,
      },
      ...(options.nodeAddresses !== undefined && {
        annotations: { [NODE_ADDRESSES_ANNOTATION]: options.nodeAddresses },
      }),
      finalizers: [FINALIZER],
      // The Node is not an owner: the garbage collector waits for all owners to
      // vanish, and a pool outlives its nodes.
      ownerReferences: [{
        apiVersion: GROUP_VERSION,
        kind: "AddressPool",
        name: pool.name,
        uid: pool.uid,
        controller: true,
        blockOwnerDeletion: true,
      }],
    },
    index: options.index,
    ...mapDualStack(prefixes, (prefix) => prefix.toString()),
  };
}

/** Addresses of the block's node, as its annotation has them: an empty one says that the node has none. Undefined without one that can be read. */
export function nodeAddressesOf(
  { metadata }: AddressBlock,
): DualStack<Address> | undefined {
  const text = metadata.annotations?.[NODE_ADDRESSES_ANNOTATION];
  if (text === undefined) return undefined;
  if (text === "") return {};
  const addresses: Partial<Record<Family, Address>> = {};
  for (const part of text.split(",")) {
    const address = Address.tryParse(part);
    if (address !== undefined) addresses[address.family] = address;
  }
  return Object.keys(addresses).length === 0 ? undefined : addresses;
}

/** The InternalIPs of a Node; of several of a family the last one, as upstream's. */
export function internalAddresses(node: V1Node): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const { type, address: text } of node.status?.addresses ?? []) {
    const address = type === "InternalIP" ? Address.tryParse(text) : undefined;
    if (address !== undefined) addresses[address.family] = address;
  }
  return addresses;
}

function parsePrefixes(name: string, object: AddressBlock): DualStack<Prefix> {
  const prefixes: { ipv4?: Prefix; ipv6?: Prefix } = {};
  for (const family of FAMILIES) {
    const text = object[family];
    if (text === undefined || text === "") continue;
    const prefix = Prefix.tryParse(text);
    if (prefix?.family !== family) {
      throw new SyntaxError(
        `Cannot read AddressBlock "${name}": ${family} is "${text}"`,
      );
    }
    prefixes[family] = prefix;
  }
  const [first, second] = valuesOf(prefixes);
  if (first === undefined) {
    throw new SyntaxError(
      `Cannot read AddressBlock "${name}": it has neither ipv4 nor ipv6`,
    );
  }
  if (second !== undefined && second.hostBits !== first.hostBits) {
    throw new SyntaxError(
      `Cannot read AddressBlock "${name}": "${first}" and "${second}" differ in size`,
    );
  }
  return prefixes;
}

function requireLabel(object: AddressBlock, key: string): string {
  const value = object.metadata.labels?.[key];
  if (value !== undefined && value !== "") return value;
  throw new SyntaxError(
    `Cannot read AddressBlock "${object.metadata.name}": label "${key}" is missing`,
  );
}

function optional<K extends string>(
  key: K,
  value: string | undefined,
): { readonly [P in K]?: string } {
  const result: { [P in K]?: string } = {};
  if (value !== undefined) result[key] = value;
  return result;
}
