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
} from "./route/address.ts";
export type { Transport } from "./connection/connection.ts";
export {
  CONNTRACK_STATUS,
  type ConntrackFlow,
  type ConntrackStatusBits,
  type ConntrackTcpState,
  type ConntrackTuple,
} from "./conntrack/conntrack.ts";
export {
  type ConntrackCount,
  ConntrackSocket,
} from "./conntrack/conntrack_socket.ts";
export { NetlinkError, type Verdict } from "./message/errors.ts";
export {
  type FouPort,
  FouSocket,
  FouUnsupportedError,
} from "./fou/fou_socket.ts";
export type {
  Ipv4Conf,
  Ipv6AddrGenMode,
  Link,
  LinkSelector,
} from "./route/link.ts";
export { type LinkCounters, linkGetCounters } from "./route/link_counters.ts";
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
} from "./route/link_requests.ts";
export {
  linkDeletions,
  type LinkDeletionsOptions,
  type RandomBytes,
} from "./route/link_deletions.ts";
export type { NewLink } from "./route/link_writer.ts";
export {
  listen,
  type Listener,
  type ListenOptions,
  warnOfDeafness,
} from "./route/listen.ts";
export type { Overflow } from "./connection/group_reader.ts";
export { checkInterfaceName, formatMac, parseMac } from "./message/names.ts";
export {
  type Neighbour,
  neighbourAdd,
  neighbourDelete,
  neighbourReplace,
  type NeighbourState,
  type NewNeighbour,
} from "./route/neighbour.ts";
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
export { netnsIdGet } from "./route/netns_id.ts";
export type { Attributes, Message, Payload } from "./message/message_reader.ts";
export type { MessageWriter } from "./message/message_writer.ts";
export type { Request } from "./message/request.ts";
export {
  MAIN_TABLE,
  type Route,
  routeAdd,
  routeDelete,
  routeReplace,
  type RouteTarget,
  type RouteType,
  wasAddedBy,
} from "./route/route.ts";
export {
  type MonitorInterests,
  type Notification,
  RouteMonitor,
  type RouteMonitorOptions,
} from "./route/route_monitor.ts";
export {
  type RouteFilter,
  RouteSocket,
  type RouteSocketOptions,
} from "./route/route_socket.ts";
export { type Rule, ruleAdd, ruleDelete } from "./route/rule.ts";
export type { Scope } from "./connection/scope.ts";
export { textTrace, type Trace } from "./connection/trace.ts";
export type { FouEncap, TunnelSpec } from "./route/tunnel.ts";
export {
  linkAddTunnel,
  linkChangeTunnel,
  type NewTunnel,
} from "./route/tunnel_requests.ts";
