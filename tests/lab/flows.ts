/**
 * Connections that the kernel tracks, as plain data.
 *
 * @module
 */
import type {
  ConntrackFilter,
  ConntrackFlow,
  ConntrackSocket,
} from "../../lib/netlink/mod.ts";

/** Lists connections. */
export async function listFlows(
  socket: ConntrackSocket,
  filter: ConntrackFilter = {},
): Promise<ConntrackFlow[]> {
  const flows: ConntrackFlow[] = [];
  await socket.visit((flow) => flows.push(copyOf(flow)), filter);
  return flows;
}

/** A flow is good only as long as the kernel's message that it was read from. */
export function copyOf(flow: ConntrackFlow): ConntrackFlow {
  return {
    family: flow.family,
    protocol: flow.protocol,
    status: flow.status,
    originalSource: flow.originalSource,
    originalDestination: flow.originalDestination,
    originalSourcePort: flow.originalSourcePort,
    originalDestinationPort: flow.originalDestinationPort,
    replySource: flow.replySource,
    replyDestination: flow.replyDestination,
    replySourcePort: flow.replySourcePort,
    replyDestinationPort: flow.replyDestinationPort,
    timeoutSeconds: flow.timeoutSeconds,
    mark: flow.mark,
    tcpState: flow.tcpState,
  };
}
