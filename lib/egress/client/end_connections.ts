import type { Address } from "../../inet/mod.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackFlow,
  ConntrackSocket,
  TcpSockets,
} from "../../netlink/mod.ts";
import { gatewayMark } from "../plan/choice.ts";
import type { ClientOptions } from "./apply.ts";

/** IPPROTO_TCP. */
const TCP = 6;

/** What `endConnections()` did. */
export interface EndedConnections {
  /** TCP connections that their programs see aborted; undefined when the kernel cannot do that. */
  readonly aborted: number | undefined;
  /** Flows that the kernel has forgotten, those of TCP included: the next packet goes by another gateway. */
  readonly forgotten: number;
}

/**
 * Ends what a client has under way through gateways that are lost, and nothing
 * else: it is known by the mark of its connection. Programs that wait for an
 * answer get ECONNABORTED instead. What has had no answer yet needs no end, it
 * leaves a gateway that is not ready by itself.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function endConnections(
  gateways: readonly Address[],
  { netns }: Pick<ClientOptions, "netns">,
): Promise<EndedConnections> {
  const marks = new Set(gateways.map(gatewayMark));
  const isThrough = ({ mark, status }: ConntrackFlow) =>
    marks.has(mark) && (status & CONNTRACK_STATUS.seenReply) !== 0;
  await using conntrack = ConntrackSocket.open({ netns });
  // To list them is to walk through those of the whole node.
  const { entries } = await conntrack.count();
  if (entries === 0) return { aborted: 0, forgotten: 0 };
  const ends = new Set<string>();
  let found = 0;
  await conntrack.visit((flow) => {
    if (!isThrough(flow)) return;
    found++;
    if (flow.protocol !== TCP) return;
    ends.add(endsText({
      source: flow.originalSource,
      sourcePort: flow.originalSourcePort,
      destination: flow.originalDestination,
      destinationPort: flow.originalDestinationPort,
    }));
  });
  if (found === 0) return { aborted: 0, forgotten: 0 };
  // First, so that what TCP says to the other end still goes the old way.
  const aborted = ends.size === 0 ? 0 : await abort(ends, { netns });
  return { aborted, forgotten: await conntrack.deleteWhere(isThrough) };
}

async function abort(
  ends: ReadonlySet<string>,
  options: Pick<ClientOptions, "netns">,
): Promise<number | undefined> {
  using sockets = TcpSockets.open(options);
  return await sockets.destroyWhere((each) => ends.has(endsText(each)));
}

function endsText(
  { source, sourcePort, destination, destinationPort }: {
    readonly source: Address;
    readonly sourcePort: number;
    readonly destination: Address;
    readonly destinationPort: number;
  },
): string {
  return `${source} ${sourcePort} ${destination} ${destinationPort}`;
}
