import {
  ERRNO,
  NETLINK_NETFILTER,
  type Netns,
  openNetlink,
} from "../../../linux/mod.ts";
import { Connection, type Transport } from "../../connection/connection.ts";
import type { NetlinkError } from "../../message/errors.ts";
import type { Request } from "../../message/request.ts";
import { type Trace, traceFromEnvironment } from "../../connection/trace.ts";
import { NETFILTER_NAMES } from "../../connection/trace_names.ts";
import { NFT_MSG_GETTABLE, NFTA_TABLE_NAME } from "../wire/constants.ts";
import type { NftElement, NftTable } from "../model/model.ts";
import {
  setText,
  tableDelete,
  tableText,
  transaction,
} from "../wire/requests.ts";
import { elementId, encodeElement } from "../wire/set_key.ts";
import { changeRequests, compareTable } from "./changes.ts";
import { describeRuleset } from "./describe.ts";
import { type NftCounter, planTable } from "./plan.ts";
import { partsOf, TableReader } from "./reader.ts";
import type { NftNewTable, NftRefill } from "./new_table.ts";
import { tableGet } from "./state.ts";

/** Options of `NetfilterSocket.open()`. */
export interface NetfilterSocketOptions {
  /** The namespace to work in; without it, the process's own. No longer needed once open. */
  readonly netns?: Netns | undefined;
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
/** Another program committed between our reading and our commit, or a signal came. */
const AGAIN: ReadonlySet<number> = new Set([
  ERRNO.ERESTART,
  ERRNO.EINTR,
  ERRNO.EAGAIN,
]);
/** The last attempt is carried out even if others change the table at the same time. */
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
  readonly #reader: TableReader;

  private constructor(connection: Connection) {
    this.#connection = connection;
    this.#reader = new TableReader(connection);
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

  /** The number by which the kernel says which socket made a change. */
  get portId(): number {
    return this.#connection.portId;
  }

  /**
   * Makes the kernel's table this one, no matter who made what is there. Returns
   * false when nothing had to be done, and nothing was sent.
   *
   * Only what differs is changed, in one transaction: no packet is lost, none
   * slips through, and counters go on. When something has to go (a chain, set
   * or counter that the plan does not have, or has otherwise), the whole table
   * is recreated, also in one transaction; then counters forget what they count
   * within that millisecond, and for some microseconds a new chain's policy is
   * `accept` (nft_chain_commit_drop_policy() in net/netfilter/nf_tables_api.c):
   * where that matters, end the chain with a rule that drops.
   *
   * @throws {NetlinkError} when the kernel refuses
   * @throws {TypeError} when the table contradicts itself
   */
  async replaceTable(table: NftTable): Promise<boolean> {
    const plan = planTable(table);
    const op = `replace ${tableText(table.name)}`;
    for (let attempt = 1;; attempt++) {
      const unguarded = attempt === MAX_ATTEMPTS;
      const { requests, generation } = await compareTable(
        plan,
        this.#reader,
        { unguarded },
      );
      if (requests.length === 0) return false;
      const error = await this.#tryCommit(requests, {
        op,
        generation: unguarded ? undefined : generation,
      });
      if (error === undefined) return true;
      if (unguarded || !AGAIN.has(error.errno)) throw error;
    }
  }

  /**
   * Makes a table where there is none of its name: one send, and nothing is
   * read before. Returns false when there is one, and nothing was changed.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async createTable(table: NftNewTable): Promise<boolean> {
    const error = await this.#commit(table.requests, table.op);
    if (error?.errno === ERRNO.EEXIST) return false;
    if (error !== undefined) throw error;
    return true;
  }

  /**
   * Gives sets and chains of a table other contents, in one transaction: one
   * send, and nothing is read before. Returns false when one of them is not
   * there, and nothing was changed.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async refillTable(refill: NftRefill): Promise<boolean> {
    const error = await this.#commit(refill.requests, refill.op);
    if (error?.errno === ERRNO.ENOENT) return false;
    if (error !== undefined) throw error;
    return true;
  }

  /**
   * How the kernel's table differs from this one: what `replaceTable()` would
   * do, one phrase each; nothing when they are the same. Changes nothing.
   */
  async compareTable(table: NftTable): Promise<readonly string[]> {
    const plan = planTable(table);
    const { requests } = await compareTable(plan, this.#reader);
    return requests.map((request) => request.describe());
  }

  /** Deletes a table with all that is in it; false when there is none. @throws {NetlinkError} when the kernel refuses, as all of these */
  async deleteTable(name: string): Promise<boolean> {
    const request = tableDelete(name);
    const op = request.describe();
    const error = await this.#commit([request], op);
    if (error?.errno === ERRNO.ENOENT) return false;
    if (error !== undefined) throw error;
    return true;
  }

  /** Whether there is a table of this name. */
  async tableExists(name: string): Promise<boolean> {
    let exists = false;
    const get = tableGet(name, () => exists = true);
    await this.#reader.ask([get]);
    return exists;
  }

  /** The names of all tables of family inet. */
  listTables(): Promise<string[]> {
    return this.#reader.list(
      { message: NFT_MSG_GETTABLE, op: "list tables", tree: [] },
      (answer) => answer.string(NFTA_TABLE_NAME),
    );
  }

  /**
   * Adds elements to a set and removes others, in one transaction. Idempotent: an element may exist already, or be gone.
   *
   * @throws {NetlinkError} `ENOENT` when the table or the set does not exist
   */
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
   * Lists the elements of a set, in no particular order; with `planned`, of one
   * that a pod may have filled: those, and some thousands more at most.
   *
   * @throws {NetlinkError} `ENOENT` when the table or set does not exist
   * @throws {TypeError} when the set's key has a field of another type than those of `NftKeyType`, or an element stands for all others
   */
  listSet(
    table: string,
    set: string,
    { planned }: { readonly planned?: number | undefined } = {},
  ): Promise<NftElement[]> {
    const atMost = planned === undefined ? undefined : partsOf(planned);
    return this.#reader.listSet({ table, set }, { atMost });
  }

  /**
   * Describes the tables of all families and programs for people: counters, sets
   * with their elements, chains, and rules as the kernel's instructions. Of a
   * large table, the first 2,000 lines.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  describeRuleset(): Promise<string[]> {
    return describeRuleset(this.#reader);
  }

  /** What the table's counters have counted; nothing where the table does not exist. */
  async readCounters(table: string): Promise<ReadonlyMap<string, NftCounter>> {
    const counters = await this.#reader.listCounters(table);
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

  /** Carries a transaction out, also while others change the table. */
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
    // Of very many errors the kernel drops some: one that says more comes first.
    const errors = outcomes.filter((error) => error !== undefined);
    return errors.find(({ errno }) => errno !== ERRNO.ENOBUFS) ?? errors[0];
  }
}

function byId(elements: readonly NftElement[]): Map<string, Uint8Array> {
  return new Map(elements.map((element) => {
    const bytes = encodeElement(element);
    return [elementId(bytes), bytes];
  }));
}
