import { startTimer } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import {
  CONNTRACK_STATUS,
  ConntrackSocket,
  type TcpConnection,
  TcpSockets,
} from "../../netlink/mod.ts";
import { gatewayMark } from "../plan/choice.ts";
import type { ClientOptions } from "./apply.ts";

/** IPPROTO_TCP. */
const TCP = 6;
/** Ending all connections of a pod takes microseconds. */
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
  signal?.throwIfAborted();
  using conntrack = ConntrackSocket.open({ netns });
  if (open === undefined) {
    const forgotten = await conntrack.deleteWhere((flow) =>
      flow.protocol === TCP && isThrough(flow)
    );
    return { aborted: undefined, forgotten };
  }
  const tracked = await conntrack.find(
    open.map((each) => ({ protocol: TCP, ...each })),
  );
  const found = tracked.filter(isThrough);
  if (found.length === 0) return NONE;
  signal?.throwIfAborted();
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
