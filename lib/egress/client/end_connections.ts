import { startTimer } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import {
  CONNTRACK_STATUS,
  ConntrackSocket,
  type FoundConnection,
  type TcpConnection,
  type TcpSocket,
  TcpSockets,
} from "../../netlink/mod.ts";
import { gatewayMark } from "../plan/choice.ts";
import type { ClientOptions } from "./apply.ts";

/** IPPROTO_TCP. */
const TCP = 6;
/** Sockets of a pod that are looked at together: what that takes of memory is freed before the next. */
const AT_ONCE = 500;
/** Ending so many takes milliseconds. */
const ABORT_MS = 2_000;

/** What `endConnections()` did. */
export interface EndedConnections {
  /** TCP connections that their programs see aborted; undefined when the kernel cannot do that. */
  readonly aborted: number | undefined;
  /** TCP connections that the kernel has forgotten: a packet of theirs would go by another gateway. */
  readonly forgotten: number;
  /**
   * A program keeps its socket locked, and so the kernel from ending the
   * connection; how many it has ended is not known then. Resolves once the
   * kernel goes on, and never rejects.
   */
  readonly held?: Promise<void>;
}

const NONE: EndedConnections = { aborted: 0, forgotten: 0 };

/**
 * Ends the TCP connections that a client has through gateways that are lost, and
 * nothing else: they are known by the marks of their connections. Programs that
 * wait for an answer get ECONNABORTED instead. What has had no answer yet needs
 * no end, it leaves a gateway that is not ready by itself; so do other protocols.
 *
 * The kernel is asked about the connections of the pod's own sockets. To list
 * those that it tracks would be to walk through the table of the whole node,
 * some milliseconds for each pod.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function endConnections(
  gateways: readonly Address[],
  { netns, signal }: ClientOptions,
): Promise<EndedConnections> {
  const marks = new Set(gateways.map(gatewayMark));
  const isThrough = (
    { mark, status }: { readonly mark: number; readonly status: number },
  ) => marks.has(mark) && (status & CONNTRACK_STATUS.seenReply) !== 0;
  using sockets = TcpSockets.open({ netns });
  const open = await sockets.list();
  if (open?.length === 0) return NONE;
  using conntrack = ConntrackSocket.open({ netns });
  if (open === undefined) {
    const forgotten = await conntrack.deleteWhere((flow) =>
      flow.protocol === TCP && isThrough(flow)
    );
    return { aborted: undefined, forgotten };
  }
  let all = NONE;
  // mutate: behind what is held each other part would wait as long, and end nothing.
  for (let at = 0; at < open.length && all.held === undefined; at += AT_ONCE) {
    signal?.throwIfAborted();
    const some = open.slice(at, at + AT_ONCE);
    all = sum(all, await endSome(some, { sockets, conntrack, isThrough }));
  }
  return all;
}

/** What was done first, and then. */
export function sum(
  first: EndedConnections,
  { aborted, forgotten, held }: EndedConnections,
): EndedConnections {
  const isUnable = first.aborted === undefined || aborted === undefined;
  return {
    aborted: isUnable ? undefined : first.aborted + aborted,
    forgotten: first.forgotten + forgotten,
    ...(held !== undefined && { held }),
  };
}

/** Ends those of some sockets whose connections go through the gateways. */
async function endSome(
  open: readonly TcpSocket[],
  { sockets, conntrack, isThrough }: {
    readonly sockets: TcpSockets;
    readonly conntrack: ConntrackSocket;
    readonly isThrough: (found: FoundConnection) => boolean;
  },
): Promise<EndedConnections> {
  const tracked = await conntrack.find(
    open.map((socket) => ({
      protocol: TCP,
      source: socket.source,
      sourcePort: socket.sourcePort,
      destination: socket.destination,
      destinationPort: socket.destinationPort,
    })),
  );
  const found = tracked.filter(isThrough);
  if (found.length === 0) return NONE;
  const ends = new Set(found.map(endsText));
  // First, so that what TCP says to the other end still goes the old way.
  const aborting = sockets.destroy(
    open.filter((each) => ends.has(endsText(each))),
  );
  const ended = await within(ABORT_MS, aborting);
  const forgotten = await conntrack.deleteFound(found);
  if (ended !== undefined) return { aborted: ended.result, forgotten };
  const held = aborting.then(() => {}, () => {});
  return { aborted: 0, forgotten, held };
}

/**
 * Waits so long, and no longer. The kernel waits for the lock of a socket for as
 * long as a program has it, and cannot be interrupted: for ever where the
 * program sends from a page that never comes (lock_sock() in tcp_abort() of
 * net/ipv4/tcp.c).
 */
async function within<T>(
  ms: number,
  work: Promise<T>,
): Promise<{ readonly result: T } | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  using _timer = startTimer(ms, () => resolve(undefined));
  return await Promise.race([work.then((result) => ({ result })), late]);
}

function endsText(
  { source, sourcePort, destination, destinationPort }: TcpConnection,
): string {
  return `${source} ${sourcePort} ${destination} ${destinationPort}`;
}
