import { NLM_F_CREATE, NLM_F_EXCL } from "../../message/constants.ts";
import { Attributes, type Message } from "../../message/message_reader.ts";
import type { MessageWriter } from "../../message/message_writer.ts";
import {
  netfilterType,
  NFGENMSG_SIZE,
  NFNL_SUBSYS_NFTABLES,
  writeNetfilterHeader,
} from "../../message/nfnetlink.ts";
import type { Request } from "../../message/request.ts";
import { type AttributeTree, writeTree } from "./attributes.ts";
import {
  NFNL_BATCH_GENID,
  NFNL_MSG_BATCH_BEGIN,
  NFNL_MSG_BATCH_END,
  NFPROTO_INET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFTA_DATA_VALUE,
  NFTA_LIST_ELEM,
  NFTA_OWNER_TABLE,
  NFTA_SET_ELEM_DATA,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_TABLE_NAME,
} from "./constants.ts";

/** A request about nf_tables. */
export interface NftRequest {
  /** One of NFT_MSG_…. */
  readonly message: number;
  /** NFPROTO_… of the tables it is about; default: inet. */
  readonly family?: number | undefined;
  /** Flags beside the usual ones. */
  readonly flags?: number;
  /** Completes "Cannot …"; a function where it takes time to say. */
  readonly op: string | (() => string);
  readonly tree: AttributeTree;
  /** Gets the attributes of each answer; their bytes are good only during the call. */
  readonly onAnswer?: (attributes: Attributes) => void;
}

/** A request about tables of one family. */
export function nftRequest(request: NftRequest): Request {
  const { message, family = NFPROTO_INET, flags, op, tree, onAnswer } = request;
  return {
    type: netfilterType(NFNL_SUBSYS_NFTABLES, message),
    flags: flags ?? 0,
    describe: () => typeof op === "string" ? op : op(),
    write(writer) {
      writeNetfilterHeader(writer, { family });
      writeTree(writer, tree);
    },
    onReply: (reply) => onAnswer?.(answerOf(reply)),
  };
}

export function answerOf(message: Message): Attributes {
  return message.payload.attributes(NFGENMSG_SIZE);
}

/**
 * The requests as one transaction. With a generation it is carried out only
 * if no program has changed anything since; otherwise the kernel says ERESTART.
 *
 * Only the last request is acknowledged, which stands for all; refusals are
 * reported in any case. Of very many acknowledgements the kernel would drop some.
 */
export function transaction(
  requests: readonly Request[],
  options: { readonly op: string; readonly generation?: number | undefined },
): Request[] {
  const { op, generation } = options;
  const tree: AttributeTree = generation === undefined
    ? []
    : [[NFNL_BATCH_GENID, generation]];
  const last = requests.length - 1;
  return [
    frame(NFNL_MSG_BATCH_BEGIN, { op, tree }),
    ...requests.map((request, index) =>
      index === last ? request : { ...request, silent: true }
    ),
    frame(NFNL_MSG_BATCH_END, { op, tree: [] }),
  ];
}

function frame(
  type: number,
  options: { readonly op: string; readonly tree: AttributeTree },
): Request {
  return {
    type,
    flags: 0,
    silent: true,
    describe: () => options.op,
    write(writer) {
      writeNetfilterHeader(writer, { resource: NFNL_SUBSYS_NFTABLES });
      writeTree(writer, options.tree);
    },
  };
}

/** How a table is called in errors. */
export function tableText(name: string): string {
  return `table "inet ${name}"`;
}

/** Makes a table, unless it is there; with `isNew`, refused with EEXIST when it is. */
export function tableAdd(
  name: string,
  { isNew = false }: { readonly isNew?: boolean } = {},
): Request {
  return nftRequest({
    message: NFT_MSG_NEWTABLE,
    flags: isNew ? NLM_F_CREATE | NLM_F_EXCL : NLM_F_CREATE,
    op: `add ${tableText(name)}`,
    tree: [[NFTA_TABLE_NAME, name]],
  });
}

/** Deletes a table with all that is in it. */
export function tableDelete(name: string): Request {
  return nftRequest({
    message: NFT_MSG_DELTABLE,
    op: `delete ${tableText(name)}`,
    tree: [[NFTA_TABLE_NAME, name]],
  });
}

/** Which set is meant. */
export interface SetName {
  readonly table: string;
  readonly set: string;
}

/** A set to add to. */
export interface SetTarget extends SetName {
  /** Of a map: so many bytes of an element are its key, and the others are its value. */
  readonly keyBytes?: number | undefined;
}

/** Adds elements to a set; those that it has already are not an error, unless a map has another value for them. */
export function elementsAdd(
  elements: readonly Uint8Array[],
  target: SetTarget,
): Request[] {
  return inParts(elements, target).map((part) =>
    elementsRequest(part, {
      ...target,
      message: NFT_MSG_NEWSETELEM,
      flags: NLM_F_CREATE,
      op: `add ${part.length} elements to ${setText(target)}`,
    })
  );
}

/** Removes elements from a set, which has to have them. */
export function elementsRemove(
  elements: readonly Uint8Array[],
  target: SetName,
): Request[] {
  return inParts(elements, target).map((part) =>
    elementsRequest(part, {
      ...target,
      message: NFT_MSG_DELSETELEM,
      flags: 0,
      op: `remove ${part.length} elements from ${setText(target)}`,
    })
  );
}

/** Removes all elements of a set. */
export function elementsFlush(target: SetName): Request {
  return nftRequest({
    message: NFT_MSG_DELSETELEM,
    op: `flush ${setText(target)}`,
    tree: [
      [NFTA_OWNER_TABLE, target.table],
      [NFTA_SET_ELEM_LIST_SET, target.set],
    ],
  });
}

/** How a set is called in errors. */
export function setText({ table, set }: SetName): string {
  return `set "${set}" of ${tableText(table)}`;
}

/** Room for elements in one attribute, whose length has 16 bits. */
const MAX_LIST_BYTES = 60_000;
/** What an element takes beside its bytes: the headers of three attributes, and of two more where it has a value. */
const [ELEMENT_HEADERS_SIZE, VALUE_HEADERS_SIZE] = [12, 8];

function inParts(
  elements: readonly Uint8Array[],
  { keyBytes }: SetTarget,
): (readonly Uint8Array[])[] {
  const headers = ELEMENT_HEADERS_SIZE +
    (keyBytes === undefined ? 0 : VALUE_HEADERS_SIZE);
  const size = headers + (elements[0]?.byteLength ?? 0);
  const perPart = Math.floor(MAX_LIST_BYTES / size);
  const parts: (readonly Uint8Array[])[] = [];
  for (let at = 0; at < elements.length; at += perPart) {
    parts.push(elements.slice(at, at + perPart));
  }
  return parts;
}

function elementsRequest(
  elements: readonly Uint8Array[],
  options: SetTarget & {
    readonly message: number;
    readonly flags: number;
    readonly op: string;
  },
): Request {
  const { table, set, keyBytes, message, flags, op } = options;
  return {
    type: netfilterType(NFNL_SUBSYS_NFTABLES, message),
    flags,
    describe: () => op,
    write(writer) {
      writeNetfilterHeader(writer, { family: NFPROTO_INET });
      writer.attributeString(NFTA_OWNER_TABLE, table);
      writer.attributeString(NFTA_SET_ELEM_LIST_SET, set);
      writer.nest(NFTA_SET_ELEM_LIST_ELEMENTS, () => {
        for (const bytes of elements) {
          writer.nest(
            NFTA_LIST_ELEM,
            () => writeElement(writer, bytes, keyBytes),
          );
        }
      });
    },
  };
}

function writeElement(
  writer: MessageWriter,
  bytes: Uint8Array,
  keyBytes = bytes.byteLength,
): void {
  const parts = [
    [NFTA_SET_ELEM_KEY, bytes.subarray(0, keyBytes)],
    [NFTA_SET_ELEM_DATA, bytes.subarray(keyBytes)],
  ] as const;
  for (const [type, part] of parts) {
    if (part.byteLength === 0) continue;
    writer.nest(type, () => writer.attributeBytes(NFTA_DATA_VALUE, part));
  }
}

/** The element that stands for all others, `*`: it has no key. */
export const EVERYBODY = "*";

/** The bytes of the elements in one part of a list of them: their keys, and in a map the values behind these if wanted. */
export function parseElements(
  answer: Attributes,
  { withValues = false }: { readonly withValues?: boolean | undefined } = {},
): (Uint8Array | typeof EVERYBODY)[] {
  const list = answer.nested(NFTA_SET_ELEM_LIST_ELEMENTS);
  return (list?.list(NFTA_LIST_ELEM) ?? []).map((bytes) => {
    const element = new Attributes(bytes);
    const key = element.nested(NFTA_SET_ELEM_KEY);
    if (key === undefined) return EVERYBODY;
    const value = key.bytes(NFTA_DATA_VALUE);
    if (value === undefined) {
      throw new SyntaxError("Cannot parse set element: its key has no value");
    }
    if (!withValues) return value.slice();
    const data = element.nested(NFTA_SET_ELEM_DATA)?.bytes(NFTA_DATA_VALUE);
    return Uint8Array.of(...value, ...data ?? []);
  });
}
