import { NETLINK_NETFILTER, type Netns, openNetlink } from "../../linux/mod.ts";
import { Connection, type Transport } from "../connection.ts";
import type { NetlinkError } from "../errors.ts";
import { Attributes } from "../message_reader.ts";
import { NFGENMSG_SIZE } from "../nfnetlink.ts";
import type { Request } from "../request.ts";
import { type Trace, traceFromEnvironment } from "../trace.ts";
import { NETFILTER_NAMES } from "../trace_names.ts";
import type { AttributeTree } from "./attributes.ts";
import {
  NFT_MSG_GETOBJ,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_OBJECT_COUNTER,
  NFTA_OBJ_TYPE,
  NFTA_OWNER_TABLE,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_KEY_TYPE,
  NFTA_TABLE_NAME,
} from "./constants.ts";
import type { NftElement, NftTable } from "./model.ts";
import {
  answerOf,
  elementsAdd,
  elementsRemove,
  nftRequest,
  parseElements,
  type SetName,
  setText,
  tableAdd,
  tableDelete,
  tableText,
  transaction,
} from "./requests.ts";
import {
  decodeElement,
  elementId,
  encodeElement,
  keyOfTypeId,
} from "./set_key.ts";
import {
  type NftCounter,
  planTable,
  type TablePlan,
  tableRequests,
} from "./table_plan.ts";
import {
  parseCounter,
  rulesAgree,
  setGet,
  tableGet,
  TableState,
  unexpectedError,
} from "./table_state.ts";

/** What `NetfilterSocket.open()` can be told. */
export interface NetfilterSocketOptions {
  /** The namespace to work in; without it, the process's own. Not needed any more once open. */
  readonly netns?: Netns;
}

/** Elements of one set that come and go. */
export interface NftSetChange {
  /** The table's name. */
  readonly table: string;
  /** The set's name. */
  readonly set: string;
  /** What has to be there afterwards. */
  readonly add?: readonly NftElement[];
  /** What must not be there afterwards, unless it is in `add` too. */
  readonly remove?: readonly NftElement[];
}

/** Room for a transaction, which has to go in one send: 100,000 IPv6 pairs. */
const SEND_BUFFER_BYTES = 8 << 20;
/** ERESTART, EINTR, EAGAIN and ENOENT of `<asm-generic/errno.h>`. */
const ERESTART = 85;
const EINTR = 4;
const EAGAIN = 11;
const ENOENT = 2;
/** Somebody else committed between our reading and our commit, or a signal came. */
const AGAIN: ReadonlySet<number> = new Set([ERESTART, EINTR, EAGAIN]);
/** The last attempt is carried out whatever others do meanwhile. */
const MAX_ATTEMPTS = 8;

/**
 * Reads and changes the nf_tables of one namespace, tables of family `inet`.
 * Every change is one transaction: packets meet the rules from before or those
 * from after, and when the kernel refuses a part nothing is changed.
 *
 * Callers may share a socket and are served in turn.
 */
export class NetfilterSocket implements Disposable, AsyncDisposable {
  readonly #connection: Connection;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Opens a socket in a namespace.
   *
   * @throws {LinuxError} when the kernel refuses; `EPROTONOSUPPORT` when it has no netfilter
   */
  static open(options: NetfilterSocketOptions = {}): NetfilterSocket {
    return NetfilterSocket.over(
      openNetlink(NETLINK_NETFILTER, {
        ...options,
        sendBufferBytes: SEND_BUFFER_BYTES,
      }),
      traceFromEnvironment(NETFILTER_NAMES),
    );
  }

  /** Works over a given transport, which it takes over. */
  static over(transport: Transport, trace?: Trace): NetfilterSocket {
    return new NetfilterSocket(new Connection(transport, { trace }));
  }

  /**
   * Makes the kernel's table this one. Returns false when it was already, and
   * nothing was sent; when only elements of sets differ, only these are changed.
   * Otherwise the table is made anew, and its counters go on from where they
   * were, but for packets within the millisecond that this takes.
   *
   * @throws {NetlinkError} when the kernel refuses
   * @throws {TypeError} when the table contradicts itself
   */
  async replaceTable(table: NftTable): Promise<boolean> {
    const plan = planTable(table);
    const op = `replace ${tableText(table.name)}`;
    for (let attempt = 1;; attempt++) {
      const { requests, generation } = await this.#changesFor(plan);
      if (requests.length === 0) return false;
      const last = attempt === MAX_ATTEMPTS;
      const error = await this.#tryCommit(requests, {
        op,
        generation: last ? undefined : generation,
      });
      if (error === undefined) return true;
      if (last || !AGAIN.has(error.errno)) throw error;
    }
  }

  /** Deletes a table with all that is in it; false when there is none. @throws {NetlinkError} when the kernel refuses, as all of these */
  async deleteTable(name: string): Promise<boolean> {
    const request = tableDelete(name);
    const op = request.describe();
    const error = await this.#commit([request], op);
    if (error?.errno === ENOENT) return false;
    if (error !== undefined) throw error;
    return true;
  }

  /** Whether there is a table of this name. */
  async tableExists(name: string): Promise<boolean> {
    let exists = false;
    const get = tableGet(name, () => exists = true);
    await this.#ask([get]);
    return exists;
  }

  /** The names of all tables of family inet. */
  listTables(): Promise<string[]> {
    return this.#list(
      { message: NFT_MSG_GETTABLE, op: "list tables", tree: [] },
      (answer) => answer.string(NFTA_TABLE_NAME),
    );
  }

  /** Adds and removes elements of a set in one transaction. Adding what is there and removing what is not is no error. */
  async changeSet(change: NftSetChange): Promise<void> {
    const add = byId(change.add ?? []);
    const remove = byId(change.remove ?? []);
    for (const id of add.keys()) remove.delete(id);
    const requests = changeRequests(
      { add: [...add.values()], remove: [...remove.values()] },
      change,
    );
    if (requests.length === 0) return;
    const error = await this.#commit(requests, `change ${setText(change)}`);
    if (error !== undefined) throw error;
  }

  /**
   * Lists the elements of a set, in no particular order.
   *
   * @throws {NetlinkError} `ENOENT` when there is no such table or set
   * @throws {TypeError} when the set's key has a field of another type than those of `NftKeyType`
   */
  async listSet(table: string, set: string): Promise<NftElement[]> {
    let type: number | undefined;
    const get = setGet(
      { table, set },
      (answer) => type = answer.u32Be(NFTA_SET_KEY_TYPE),
    );
    const [error] = await this.#connection.tryExecute([get], ON_THREAD);
    if (error !== undefined) throw error;
    const key = keyOfTypeId(type ?? 0);
    if (key === undefined) {
      throw new TypeError(
        `Cannot list ${setText({ table, set })}: its key has type ${type}`,
      );
    }
    const elements = await this.#listElements({ table, set });
    return elements.map((bytes) => decodeElement(bytes, key));
  }

  /** What the table's counters have counted; nothing where there is no such table. */
  async readCounters(table: string): Promise<ReadonlyMap<string, NftCounter>> {
    const counters = await this.#list({
      message: NFT_MSG_GETOBJ,
      op: `list counters of ${tableText(table)}`,
      tree: [
        [NFTA_OWNER_TABLE, table],
        [NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER],
      ],
    }, parseCounter);
    return new Map(counters.map(({ name, value }) => [name, value]));
  }

  /**
   * Closes the socket, after what is running, on another thread: while anything
   * deleted from nf_tables lately is being freed, closing takes 10 ms. Does not
   * wait for that; `await using` does. Harmless when done twice.
   */
  [Symbol.dispose](): void {
    void this.#connection.closeOffThread(); // never rejects: close(2) only returns a number
  }

  /** As `Symbol.dispose`, and waits until the socket is closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.closeOffThread();
  }

  /** What makes the kernel's table the plan's: nothing, some elements, or all of it. */
  async #changesFor(plan: TablePlan): Promise<{
    readonly requests: Request[];
    readonly generation: number | undefined;
  }> {
    const state = new TableState(plan);
    await this.#ask(state.requests());
    const { generation } = state;
    if (state.agrees && rulesAgree(plan, await this.#listRules(plan.name))) {
      return { requests: await this.#elementChanges(plan), generation };
    }
    const requests = tableRequests(plan, state.counters);
    if (state.exists) {
      requests.unshift(tableAdd(plan.name), tableDelete(plan.name));
    }
    return { requests, generation };
  }

  async #elementChanges(plan: TablePlan): Promise<Request[]> {
    const requests: Request[] = [];
    for (const { name: set, elements } of plan.sets) {
      const target = { table: plan.name, set };
      const found = new Map<string, Uint8Array>();
      for (const bytes of await this.#listElements(target)) {
        found.set(elementId(bytes), bytes);
      }
      const add = [...elements].flatMap(([id, bytes]) =>
        found.has(id) ? [] : [bytes]
      );
      const remove = [...found].flatMap(([id, bytes]) =>
        elements.has(id) ? [] : [bytes]
      );
      requests.push(...changeRequests({ add, remove }, target));
    }
    return requests;
  }

  #listElements(target: SetName): Promise<Uint8Array[]> {
    return this.#list({
      message: NFT_MSG_GETSETELEM,
      op: `list ${setText(target)}`,
      tree: [
        [NFTA_OWNER_TABLE, target.table],
        [NFTA_SET_ELEM_LIST_SET, target.set],
      ],
    }, parseElements).then((parts) => parts.flat());
  }

  #listRules(table: string): Promise<Attributes[]> {
    const request = nftRequest({
      message: NFT_MSG_GETRULE,
      op: `list rules of ${tableText(table)}`,
      tree: [[NFTA_OWNER_TABLE, table]],
    });
    return this.#connection.dump(
      request,
      ({ payload }) => new Attributes(payload.bytes.slice(NFGENMSG_SIZE)),
      ON_THREAD,
    );
  }

  #list<T>(
    request: {
      readonly message: number;
      readonly op: string;
      readonly tree: AttributeTree;
    },
    parse: (answer: Attributes) => T | undefined,
  ): Promise<T[]> {
    return this.#connection.dump(
      nftRequest(request),
      (message) => parse(answerOf(message)),
    );
  }

  /** Asks for what may not be there. */
  async #ask(requests: readonly Request[]): Promise<void> {
    const outcomes = await this.#connection.tryExecute(requests, ON_THREAD);
    const error = unexpectedError(outcomes);
    if (error !== undefined) throw error;
  }

  /** Carries a transaction out whatever others do meanwhile. */
  async #commit(
    requests: readonly Request[],
    op: string,
  ): Promise<NetlinkError | undefined> {
    for (let attempt = 1;; attempt++) {
      const error = await this.#tryCommit(requests, { op });
      const again = error !== undefined && AGAIN.has(error.errno);
      if (!again || attempt === MAX_ATTEMPTS) return error;
    }
  }

  async #tryCommit(
    requests: readonly Request[],
    options: { readonly op: string; readonly generation?: number | undefined },
  ): Promise<NetlinkError | undefined> {
    const outcomes = await this.#connection.tryExecute(
      transaction(requests, options),
      { whole: true },
    );
    return outcomes.find((error) => error !== undefined);
  }
}

/** The kernel answers these from its memory, without waiting for anything. */
const ON_THREAD = { onThread: true } as const;

function byId(elements: readonly NftElement[]): Map<string, Uint8Array> {
  return new Map(elements.map((element) => {
    const bytes = encodeElement(element);
    return [elementId(bytes), bytes];
  }));
}

/** What is removed is added before: the kernel refuses to remove what is not there. */
function changeRequests(
  change: {
    readonly add: readonly Uint8Array[];
    readonly remove: readonly Uint8Array[];
  },
  target: SetName,
): Request[] {
  return [
    ...elementsAdd([...change.add, ...change.remove], target),
    ...elementsRemove(change.remove, target),
  ];
}
