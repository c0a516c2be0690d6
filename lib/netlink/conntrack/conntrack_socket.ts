import type { Family } from "../../inet/mod.ts";
import {
  ERRNO,
  NETLINK_NETFILTER,
  type Netns,
  openNetlink,
} from "../../linux/mod.ts";
import { Connection, type Transport } from "../connection/connection.ts";
import {
  type ConntrackEnd,
  type ConntrackFlow,
  type ConntrackTuple,
  writeEndFilter,
  writeOriginalTuple,
} from "./conntrack.ts";
import {
  countDeleted,
  NetlinkError,
  unexpectedError,
} from "../message/errors.ts";
import { familyNumber } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import {
  netfilterType,
  NFGENMSG_SIZE,
  NFNL_SUBSYS_CTNETLINK,
  writeNetfilterHeader,
} from "../message/nfnetlink.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { type Trace, traceFromEnvironment } from "../connection/trace.ts";
import { NETFILTER_NAMES } from "../connection/trace_names.ts";
import { parseFlow } from "./flow_view.ts";
import { CTA_ID, CTA_TUPLE_ORIG, CTA_ZONE } from "./constants.ts";

/** Messages of `<linux/netfilter/nfnetlink_conntrack.h>`. */
const IPCTNL_MSG_CT_NEW = 0;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;
const IPCTNL_MSG_CT_GET_STATS = 5;
const CTA_STATS_GLOBAL_ENTRIES = 1;
const CTA_STATS_GLOBAL_MAX_ENTRIES = 2;

/** How full the table of connections is. */
export interface ConntrackCount {
  /** The number of connections in this namespace, the half-open among them. */
  readonly entries: number;
  /** The most it may be, net.netfilter.nf_conntrack_max; 0 for no limit. */
  readonly max: number;
}

/** Which connections are meant. */
export interface ConntrackFilter {
  /** Those of one family. */
  readonly family?: Family;
  /** Those of one end; of IPv6, and before Linux 5.8, all of its family. */
  readonly end?: ConntrackEnd;
}

/** A connection that was found by its tuple. */
export interface FoundConnection extends ConntrackTuple {
  readonly mark: number;
  /** Bits of `CONNTRACK_STATUS`. */
  readonly status: number;
  /** What has the same tuple later has another one. */
  readonly id: Uint8Array;
}

/** Reads and deletes the connections that the kernel tracks in one network namespace. Callers may share a socket. */
export class ConntrackSocket implements Disposable, AsyncDisposable {
  readonly #connection: Connection;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Opens a socket in a namespace; without one, in the process's own.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(
    options: { readonly netns?: Netns | undefined } = {},
  ): ConntrackSocket {
    return ConntrackSocket.over(
      openNetlink(NETLINK_NETFILTER, options),
      traceFromEnvironment(NETFILTER_NAMES),
    );
  }

  /** Works over a given transport, which it takes over. */
  static over(transport: Transport, trace?: Trace): ConntrackSocket {
    return new ConntrackSocket(new Connection(transport, { trace }));
  }

  /** Counts the connections. @throws {NetlinkError} when the kernel refuses, as all of these */
  async count(): Promise<ConntrackCount> {
    let count: ConntrackCount | undefined;
    const request: Request = {
      type: ctnetlinkType(IPCTNL_MSG_CT_GET_STATS),
      flags: 0,
      describe: () => "count connections",
      write: (writer) => writeNetfilterHeader(writer),
      onReply({ payload }) {
        const attributes = payload.attributes(NFGENMSG_SIZE);
        count = {
          entries: attributes.u32Be(CTA_STATS_GLOBAL_ENTRIES) ?? 0,
          max: attributes.u32Be(CTA_STATS_GLOBAL_MAX_ENTRIES) ?? 0,
        };
      },
    };
    const [error] = await this.#connection.tryExecute([request]);
    if (error !== undefined) throw error;
    if (count === undefined) {
      throw new NetlinkError(request.describe(), {
        errno: ERRNO.EPROTO,
        extack: "no answer",
      });
    }
    return count;
  }

  /**
   * Shows every connection to the visitor, which may keep what it reads of it
   * but not the flow itself. The table goes on changing in the meantime: a connection
   * that comes or goes may be seen or not, or twice.
   */
  async visit(
    visitor: (flow: ConntrackFlow) => void,
    filter: ConntrackFilter = {},
  ): Promise<void> {
    await this.#dump(filter, (message) => {
      const flow = parseFlow(message);
      if (flow !== undefined) visitor(flow);
      return undefined;
    });
  }

  /** Deletes the connections that match, and returns how many of them were still there. @throws {NetlinkError} for the first that the kernel refused */
  async deleteWhere(
    match: (flow: ConntrackFlow) => boolean,
    filter: ConntrackFilter = {},
  ): Promise<number> {
    const requests = await this.#dump(filter, (message) => {
      const flow = parseFlow(message);
      return flow !== undefined && match(flow)
        ? deletion(message, flow.family)
        : undefined;
    });
    return countDeleted(await this.#connection.tryExecute(requests));
  }

  /**
   * Finds connections by their tuples, without a look at the others: listing
   * walks through those of all namespaces. Those that are not there are left out.
   */
  async find(tuples: readonly ConntrackTuple[]): Promise<FoundConnection[]> {
    const found: FoundConnection[] = [];
    const outcomes = await this.#connection.tryExecute(
      tuples.map((tuple) => ({
        ...tupleRequest(IPCTNL_MSG_CT_GET, tuple),
        onReply(message: Message) {
          const flow = parseFlow(message);
          // The kernel finds them by the tuple of their answers, too.
          if (flow === undefined || !isOriginal(flow, tuple)) return;
          const attributes = message.payload.attributes(NFGENMSG_SIZE);
          const id = attributes.bytes(CTA_ID)?.slice() ?? new Uint8Array();
          const { mark, status } = flow;
          found.push({ ...tuple, mark, status, id });
        },
      })),
    );
    const failed = unexpectedError(outcomes);
    if (failed !== undefined) throw failed;
    return found;
  }

  /** Deletes connections that were found, and returns how many of them were still there. @throws {NetlinkError} for the first that the kernel refused */
  async deleteFound(found: readonly FoundConnection[]): Promise<number> {
    return countDeleted(
      await this.#connection.tryExecute(found.map((each) => {
        const request = tupleRequest(IPCTNL_MSG_CT_DELETE, each);
        return {
          ...request,
          write(writer: MessageWriter) {
            request.write(writer);
            writer.attributeBytes(CTA_ID, each.id);
          },
        };
      })),
    );
  }

  /** Deletes one connection, without a look at the others. False when it is not there. @throws {NetlinkError} when the kernel refuses */
  async delete(connection: ConntrackTuple): Promise<boolean> {
    const request = tupleRequest(IPCTNL_MSG_CT_DELETE, connection);
    return countDeleted(await this.#connection.tryExecute([request])) > 0;
  }

  /** As `NetfilterSocket` does: on another thread, and without waiting for that. Harmless when done twice. */
  [Symbol.dispose](): void {
    void this.#connection.closeOffThread(); // never rejects: close(2) only returns a number
  }

  /** As `Symbol.dispose`, and waits until the socket is closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.closeOffThread();
  }

  #dump<T>(
    filter: ConntrackFilter,
    parse: (message: Message) => T | undefined,
  ): Promise<T[]> {
    const entryType = ctnetlinkType(IPCTNL_MSG_CT_NEW);
    return this.#connection.dump(
      {
        type: ctnetlinkType(IPCTNL_MSG_CT_GET),
        flags: 0,
        describe: () => "list connections",
        write(writer) {
          const { end, family = end?.address.family } = filter;
          writeNetfilterHeader(writer, { family: familyNumber(family) });
          if (end !== undefined) writeEndFilter(writer, end);
        },
      },
      (message) => message.type === entryType ? parse(message) : undefined,
    );
  }
}

function ctnetlinkType(message: number): number {
  return netfilterType(NFNL_SUBSYS_CTNETLINK, message);
}

/** Asks for something about the connection of a tuple. */
function tupleRequest(message: number, tuple: ConntrackTuple): Request {
  const { source, destination, protocol, sourcePort, destinationPort } = tuple;
  const verb = message === IPCTNL_MSG_CT_GET ? "find" : "delete";
  return {
    type: ctnetlinkType(message),
    flags: 0,
    describe: () =>
      `${verb} connection of protocol ${protocol} from ${source} port ${sourcePort} to ${destination} port ${destinationPort}`,
    write(writer) {
      writeNetfilterHeader(writer, { family: familyNumber(source.family) });
      writeOriginalTuple(writer, tuple);
    },
  };
}

function isOriginal(flow: ConntrackFlow, tuple: ConntrackTuple): boolean {
  return flow.originalSourcePort === tuple.sourcePort &&
    flow.originalDestinationPort === tuple.destinationPort &&
    flow.originalSource.equals(tuple.source) &&
    flow.originalDestination.equals(tuple.destination);
}

/** Deletes this one connection: what has the same addresses later has another id. */
function deletion(message: Message, family: Family): Request {
  const attributes = message.payload.attributes(NFGENMSG_SIZE);
  const parts = [CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE].flatMap((type) => {
    const value = attributes.bytes(type);
    return value === undefined ? [] : [{ type, value: value.slice() }];
  });
  return {
    type: ctnetlinkType(IPCTNL_MSG_CT_DELETE),
    flags: 0,
    describe: () => "delete connection",
    write(writer) {
      writeNetfilterHeader(writer, { family: familyNumber(family) });
      for (const { type, value } of parts) writer.attributeBytes(type, value);
    },
  };
}
