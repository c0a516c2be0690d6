import { Address } from "../../../inet/mod.ts";
import { checkInterfaceName } from "../../message/names.ts";
import { IFNAMSIZ } from "./fields.ts";
import type { NftElement, NftKeyType, NftSet } from "../model/model.ts";

/** A type of values. */
interface KeyType {
  /** The number that nft knows it by, and that the kernel keeps for nft (`enum datatypes` of nftables' datatype.h). */
  readonly id: number;
  /** How many bytes a value has. */
  readonly size: number;
  /** Whether values are in network order; the others are in the machine's. */
  readonly network: boolean;
}

const KEY_TYPES: Readonly<Record<NftKeyType, KeyType>> = {
  ipv4_addr: { id: 7, size: 4, network: true },
  ipv6_addr: { id: 8, size: 16, network: true },
  mark: { id: 19, size: 4, network: false },
  ifname: { id: 41, size: IFNAMSIZ, network: false },
};

const NAMES: ReadonlyMap<number, NftKeyType> = new Map([
  [7, "ipv4_addr"],
  [8, "ipv6_addr"],
  [19, "mark"],
  [41, "ifname"],
]);

/** In a concatenation's number each type has six bits (TYPE_BITS of nftables' datatype.h). */
const TYPE_BITS = 6;

/** BYTEORDER_… of nftables' datatype.h, which `nft list` reads from a set's user data. */
export type ByteOrder = 0 | 1 | 2;

/** The number of a key's type. @throws {TypeError} when the key has no field, or too many for the number */
export function keyTypeId(key: NftSet["key"]): number {
  if (key.length < 1 || key.length > 5) {
    throw new TypeError(`Cannot make a set with a key of ${key.length} fields`);
  }
  return key.reduce((id, type) => id << TYPE_BITS | KEY_TYPES[type].id, 0);
}

/** NFT_DATA_VALUE_MAXLEN of `<linux/netfilter/nf_tables.h>`: all registers together. */
const MAX_KEY_BYTES = 64;

/** How many bytes a key has. @throws {TypeError} when these are more than the kernel takes */
export function keySize(key: NftSet["key"]): number {
  const size = key.reduce((sum, type) => sum + KEY_TYPES[type].size, 0);
  if (size <= MAX_KEY_BYTES) return size;
  throw new TypeError(
    `Cannot make a set with a key of ${size} bytes: at most ${MAX_KEY_BYTES}`,
  );
}

/** The order of a key's bytes; a concatenation has none. */
export function keyByteOrder(key: NftSet["key"]): ByteOrder {
  const [type, ...more] = key;
  if (type === undefined || more.length > 0) return 0;
  return KEY_TYPES[type].network ? 2 : 1;
}

/** The fields of a key by its type's number; undefined when it has one that is not in use here. */
export function keyOfTypeId(id: number): NftSet["key"] | undefined {
  const key: NftKeyType[] = [];
  for (let rest = id; rest !== 0; rest >>>= TYPE_BITS) {
    const type = NAMES.get(rest & (1 << TYPE_BITS) - 1);
    if (type === undefined) return undefined;
    key.unshift(type);
  }
  return key.length === 0 ? undefined : key;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * The bytes of an element.
 *
 * @throws {TypeError} when its values are not what the key wants; only their sizes are looked at where no key is given
 */
export function encodeElement(
  element: NftElement,
  key?: NftSet["key"],
): Uint8Array {
  if (key !== undefined) checkElement(element, key);
  let size = 0;
  for (const value of element) size += sizeOf(value);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const value of element) {
    writeValue(view, at, value);
    at += sizeOf(value);
  }
  return bytes;
}

function checkElement(element: NftElement, key: NftSet["key"]): void {
  const types = element.map(typeOf);
  if (
    types.length !== key.length ||
    types.some((type, index) => type !== key[index])
  ) {
    throw new TypeError(
      `Cannot use element "${element.join(" . ")}" in a set of ${
        key.join(" . ")
      }`,
    );
  }
}

function typeOf(value: Address | string | number): NftKeyType {
  if (typeof value === "string") return "ifname";
  if (typeof value === "number") return "mark";
  return value.family === "ipv4" ? "ipv4_addr" : "ipv6_addr";
}

function sizeOf(value: Address | string | number): number {
  return KEY_TYPES[typeOf(value)].size;
}

function writeValue(
  view: DataView,
  at: number,
  value: Address | string | number,
): void {
  if (typeof value === "number") {
    if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) {
      throw new RangeError(`Cannot use mark ${value}: not a 32-bit number`);
    }
    view.setUint32(at, value, true);
  } else if (typeof value === "string") {
    const bytes = encoder.encode(checkInterfaceName(value));
    new Uint8Array(view.buffer, at, bytes.byteLength).set(bytes);
  } else if (value.family === "ipv4") {
    view.setUint32(at, Number(value.value));
  } else {
    view.setBigUint64(at, value.value >> 64n);
    view.setBigUint64(at + 8, BigInt.asUintN(64, value.value));
  }
}

/**
 * The values of an element.
 *
 * @throws {SyntaxError} when there are not as many bytes as the key has
 */
export function decodeElement(
  bytes: Uint8Array,
  key: NftSet["key"],
): NftElement {
  if (bytes.byteLength !== keySize(key)) {
    throw new SyntaxError(
      `Cannot parse element: it has ${bytes.byteLength} bytes, not ${
        keySize(key)
      }`,
    );
  }
  let at = 0;
  return key.map((type) => {
    const part = bytes.subarray(at, at += KEY_TYPES[type].size);
    return decodeValue(part, type);
  });
}

function decodeValue(
  bytes: Uint8Array,
  type: NftKeyType,
): Address | string | number {
  if (type === "mark") {
    return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  }
  if (type === "ifname") {
    const end = bytes.indexOf(0);
    return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
  }
  return Address.fromBytes(bytes);
}

/** An element's bytes as text, to find it again by. */
export function elementId(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
