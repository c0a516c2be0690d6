import { Attributes } from "../../message/message_reader.ts";
import type { MessageWriter } from "../../message/message_writer.ts";
import { NFTA_LIST_ELEM } from "./constants.ts";

/** Value of an attribute: four bytes big-endian, text with its NUL, bytes, attributes, or a list. */
export type AttributeValue =
  | number
  | string
  | Uint8Array
  | AttributeTree
  | AttributeList;

/** Attributes as data, so that what is sent can also be compared with what the kernel has. */
export type AttributeTree = readonly (readonly [
  type: number,
  value: AttributeValue,
])[];

/** Elements, each in an attribute of type NFTA_LIST_ELEM. */
export interface AttributeList {
  readonly list: readonly AttributeTree[];
}

export function writeTree(writer: MessageWriter, tree: AttributeTree): void {
  for (const [type, value] of tree) {
    if (typeof value === "number") writer.attributeU32Be(type, value >>> 0);
    else if (typeof value === "string") writer.attributeString(type, value);
    else if (value instanceof Uint8Array) writer.attributeBytes(type, value);
    else writer.nest(type, () => writeTree(writer, treeOf(value)));
  }
}

/**
 * Whether the kernel's attributes have all that the tree has. They may have
 * more, as a handle; but in those that hold attributes what is more has to be
 * zero, as a flag is that was not asked for.
 */
export function includesTree(found: Attributes, tree: AttributeTree): boolean {
  return tree.every(([type, value]) => {
    const bytes = found.bytes(type);
    return bytes !== undefined && holds(bytes, value);
  });
}

/** As `includesTree()`, and what is more is zero. */
function agreesWithTree(found: Attributes, tree: AttributeTree): boolean {
  const known = new Set(tree.map(([type]) => type));
  return includesTree(found, tree) &&
    found.types().every((type) =>
      known.has(type) || found.bytes(type)?.every((byte) => byte === 0)
    );
}

function holds(bytes: Uint8Array, value: AttributeValue): boolean {
  if (typeof value === "number") return sameBytes(bytes, bigEndian(value));
  if (typeof value === "string") return textOf(bytes) === value;
  if (value instanceof Uint8Array) return sameBytes(bytes, value);
  const found = new Attributes(bytes);
  return isList(value)
    ? holdsList(found.list(NFTA_LIST_ELEM), value.list)
    : agreesWithTree(found, value);
}

function holdsList(
  found: readonly Uint8Array[],
  list: readonly AttributeTree[],
): boolean {
  return found.length === list.length &&
    found.every((bytes, index) => {
      const tree = list[index];
      return tree !== undefined && agreesWithTree(new Attributes(bytes), tree);
    });
}

function isList(value: AttributeTree | AttributeList): value is AttributeList {
  return "list" in value;
}

function treeOf(value: AttributeTree | AttributeList): AttributeTree {
  return isList(value)
    ? value.list.map((tree) => [NFTA_LIST_ELEM, tree] as const)
    : value;
}

/** Whether both are the same bytes. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength &&
    a.every((byte, index) => byte === b[index]);
}

/** Four bytes, big-endian. */
export function bigEndian(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** Eight bytes, big-endian. */
export function bigEndian64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes;
}

const decoder = new TextDecoder();

/** Text up to its first NUL. */
function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}
