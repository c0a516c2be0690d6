import type { Connection } from "../../connection/connection.ts";
import { AT_MOST_IN_POD } from "../../connection/dump_reader.ts";
import { unexpectedError } from "../../message/errors.ts";
import { Attributes } from "../../message/message_reader.ts";
import { NFGENMSG_SIZE } from "../../message/nfnetlink.ts";
import type { Request } from "../../message/request.ts";
import type { AttributeTree } from "../wire/attributes.ts";
import {
  NFT_MSG_GETOBJ,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSETELEM,
  NFT_OBJECT_COUNTER,
  NFTA_OBJ_TYPE,
  NFTA_OWNER_TABLE,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_KEY_TYPE,
} from "../wire/constants.ts";
import type { NftElement } from "../model/model.ts";
import {
  answerOf,
  EVERYBODY,
  nftRequest,
  parseElements,
  type SetName,
  setText,
  tableText,
} from "../wire/requests.ts";
import { decodeElement, keyOfTypeId } from "../wire/set_key.ts";
import type { NftCounter } from "./plan.ts";
import { parseCounter, setGet } from "./state.ts";

/** The kernel answers short questions from its memory, without waiting for anything. */
const ON_THREAD = { onThread: true } as const;

/** Asks for a list of things. */
export interface ListRequest {
  /** One of NFT_MSG_GET…. */
  readonly message: number;
  /** NFPROTO_… of the tables; default: inet. */
  readonly family?: number | undefined;
  /** Completes "Cannot …". */
  readonly op: string;
  /** What to list. */
  readonly tree: AttributeTree;
}

/** Of a list that may be anyone's. */
export interface ForeignOptions {
  /** NFPROTO_… of the table; default: inet. */
  readonly family?: number | undefined;
  /** How many messages of the kernel are read at most. */
  readonly atMost?: number | undefined;
}

/** How elements are listed. */
export interface ElementOptions extends ForeignOptions {
  /** Whether the values of a map come behind their keys; otherwise its keys alone are listed. */
  readonly withValues?: boolean | undefined;
}

/** Messages that have so many elements of a set, and some thousands more: each has at least 50 of them, most 2,000. */
export function partsOf(elements: number): number {
  return 5 + Math.ceil(elements / 50);
}

/** Reads nf_tables through a connection that it does not own. */
export class TableReader {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Asks for what may not be there. @throws {NetlinkError} for any other refusal */
  async ask(requests: readonly Request[]): Promise<void> {
    const outcomes = await this.#connection.tryExecute(requests, ON_THREAD);
    const error = unexpectedError(outcomes);
    if (error !== undefined) throw error;
  }

  /** Lists things. */
  list<T>(
    request: ListRequest,
    parse: (answer: Attributes) => T | undefined,
    { atMost }: { readonly atMost?: number | undefined } = {},
  ): Promise<T[]> {
    return this.#connection.dump(
      nftRequest(request),
      (message) => parse(answerOf(message)),
      { atMost },
    );
  }

  /** Lists the elements of a set with the type of its key; of a map the keys. */
  async listSet(
    target: SetName,
    options: ForeignOptions = {},
  ): Promise<NftElement[]> {
    let type: number | undefined;
    const get = setGet(
      target,
      (answer) => type = answer.u32Be(NFTA_SET_KEY_TYPE),
    );
    const [error] = await this.#connection.tryExecute([get], ON_THREAD);
    if (error !== undefined) throw error;
    const key = keyOfTypeId(type ?? 0);
    if (key === undefined) {
      throw new TypeError(
        `Cannot list ${setText(target)}: its key has type ${type}`,
      );
    }
    const elements = await this.listElements(target, options);
    if (elements === EVERYBODY) {
      throw new TypeError(
        `Cannot list ${setText(target)}: it has an element "${EVERYBODY}"`,
      );
    }
    return elements.map((bytes) => decodeElement(bytes, key));
  }

  /** Lists the bytes of a set's elements; none where one of them stands for all others. */
  async listElements(
    target: SetName,
    { family, atMost, withValues }: ElementOptions = {},
  ): Promise<Uint8Array[] | typeof EVERYBODY> {
    const parts = await this.list(
      {
        message: NFT_MSG_GETSETELEM,
        family,
        op: `list ${setText(target)}`,
        tree: [
          [NFTA_OWNER_TABLE, target.table],
          [NFTA_SET_ELEM_LIST_SET, target.set],
        ],
      },
      (answer) => parseElements(answer, { withValues }),
      { atMost },
    );
    const elements: Uint8Array[] = [];
    for (const element of parts.flat()) {
      if (element === EVERYBODY) return EVERYBODY;
      elements.push(element);
    }
    return elements;
  }

  /** Lists what the counters of a table have counted; none where it does not exist. */
  listCounters(
    table: string,
    { family }: ForeignOptions = {},
  ): Promise<{ readonly name: string; readonly value: NftCounter }[]> {
    return this.list({
      message: NFT_MSG_GETOBJ,
      family,
      op: `list counters of ${tableText(table)}`,
      tree: [
        [NFTA_OWNER_TABLE, table],
        [NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER],
      ],
    }, parseCounter);
  }

  /**
   * Lists the rules of a table, chain by chain in their order. A pod with
   * NET_ADMIN can add any number to a table of ours: of those that are many
   * more than planned, the beginning is listed.
   */
  listRules(
    table: string,
    { planned = 0, family }: {
      readonly planned?: number;
      readonly family?: number | undefined;
    } = {},
  ): Promise<Attributes[]> {
    const request = nftRequest({
      message: NFT_MSG_GETRULE,
      family,
      op: `list rules of ${tableText(table)}`,
      tree: [[NFTA_OWNER_TABLE, table]],
    });
    return this.#connection.dump(
      request,
      ({ payload }) => new Attributes(payload.bytes.slice(NFGENMSG_SIZE)),
      { ...ON_THREAD, atMost: planned + AT_MOST_IN_POD },
    );
  }
}
