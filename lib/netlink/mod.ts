/**
 * Network configuration of Linux over netlink: links and tunnels, addresses,
 * routes, rules, neighbours, packet filter and connection tracking of any
 * network namespace, without executing a program.
 *
 * `NETLINK_TRACE=1` in the environment writes every message to standard error.
 *
 * @module
 */

export {
  addressAdd,
  addressDelete,
  type AddressEntry,
  type AddressTarget,
  type InterfaceAddress,
  type NewAddress,
} from "./address.ts";
export type { Transport } from "./connection.ts";
export {
  CONNTRACK_STATUS,
  type ConntrackFlow,
  type ConntrackStatusBits,
  type ConntrackTcpState,
  type ConntrackTuple,
} from "./conntrack.ts";
export { type ConntrackCount, ConntrackSocket } from "./conntrack_socket.ts";
export { NetlinkError, type Verdict } from "./errors.ts";
export { type FouPort, FouSocket, FouUnsupportedError } from "./fou_socket.ts";
export type { Ipv4Conf, Ipv6AddrGenMode, Link, LinkSelector } from "./link.ts";
export { type LinkCounters, linkGetCounters } from "./link_counters.ts";
export {
  linkAddBridge,
  linkAddDummy,
  linkAddVeth,
  type LinkChange,
  linkDelete,
  type LinkDeletion,
  linkGet,
  linkSet,
  type NewVeth,
} from "./link_requests.ts";
export {
  linkDeletions,
  type LinkDeletionsOptions,
  type RandomBytes,
} from "./link_deletions.ts";
export type { NewLink } from "./link_writer.ts";
export { listen, type Listener, type ListenOptions } from "./listen.ts";
export type { Overflow } from "./group_reader.ts";
export { checkInterfaceName, formatMac, parseMac } from "./names.ts";
export {
  type Neighbour,
  neighbourAdd,
  neighbourDelete,
  neighbourReplace,
  type NeighbourState,
  type NewNeighbour,
} from "./neighbour.ts";
export { formatTable } from "./netfilter/text/format.ts";
export type {
  NftAddressField,
  NftChain,
  NftCtDirection,
  NftCtState,
  NftDynamic,
  NftElement,
  NftField,
  NftIcmpv6Type,
  NftKeyType,
  NftL4proto,
  NftRejectCode,
  NftRule,
  NftSet,
  NftStatement,
  NftTable,
} from "./netfilter/model/model.ts";
export {
  NetfilterSocket,
  type NetfilterSocketOptions,
  type NftSetChange,
} from "./netfilter/table/netfilter_socket.ts";
export { type NftNewTable, prepareTable } from "./netfilter/table/new_table.ts";
export {
  TableMonitor,
  type TableMonitorOptions,
  type TableNotification,
} from "./netfilter/table/monitor.ts";
export type { NftCounter } from "./netfilter/table/plan.ts";
export * as nft from "./netfilter/model/statements.ts";
export { netnsIdGet } from "./netns_id.ts";
export type { Attributes, Message, Payload } from "./message_reader.ts";
export type { MessageWriter } from "./message_writer.ts";
export type { Request } from "./request.ts";
export {
  type Route,
  routeAdd,
  routeDelete,
  routeReplace,
  type RouteTarget,
  type RouteType,
  wasAddedBy,
} from "./route.ts";
export {
  type MonitorInterests,
  type Notification,
  RouteMonitor,
  type RouteMonitorOptions,
} from "./route_monitor.ts";
export {
  type RouteFilter,
  RouteSocket,
  type RouteSocketOptions,
} from "./route_socket.ts";
export { type Rule, ruleAdd, ruleDelete } from "./rule.ts";
export type { Scope } from "./scope.ts";
export { textTrace, type Trace } from "./trace.ts";
export type { FouEncap, TunnelSpec } from "./tunnel.ts";
export {
  linkAddTunnel,
  linkChangeTunnel,
  type NewTunnel,
} from "./tunnel_requests.ts";
