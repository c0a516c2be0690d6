/**
 * Network configuration of Linux over netlink: links and tunnels, addresses,
 * routes, rules, neighbours, packet filter and connection tracking of any
 * network namespace, without executing a program.
 *
 * `NETLINK_TRACE=1` in the environment writes every message to standard error.
 *
 * @module
 */

export { AT_MOST_IN_POD } from "./connection/dump_reader.ts";
export {
  addressAdd,
  addressDelete,
  type AddressEntry,
} from "./route/address.ts";
export {
  CONNTRACK_STATUS,
  type ConntrackEnd,
  type ConntrackFlow,
  type ConntrackTuple,
} from "./conntrack/conntrack.ts";
export {
  type ConntrackCount,
  type ConntrackFilter,
  ConntrackSocket,
  type FoundConnection,
} from "./conntrack/conntrack_socket.ts";
export {
  type TcpConnection,
  type TcpSocket,
  TcpSockets,
} from "./diag/tcp_sockets.ts";
export { type Lost, NetlinkError, refuseLost } from "./message/errors.ts";
export {
  type FouPort,
  FouSocket,
  FouUnsupportedError,
} from "./fou/fou_socket.ts";
export {
  type Ipv4Conf,
  type Link,
  type LinkSelector,
  MAX_ALIAS_BYTES,
} from "./link/link.ts";
export {
  linkAddVeth,
  linkDelete,
  linkGet,
  linkSet,
} from "./link/link_requests.ts";
export { linkDeletions, type RandomBytes } from "./link/link_deletions.ts";
export { listen, type Listener, warnOfDeafness } from "./route/listen.ts";
export { checkInterfaceName, formatMac, parseMac } from "./message/names.ts";
export {
  type Neighbour,
  neighbourDelete,
  neighbourGet,
  neighbourReplace,
} from "./route/neighbour.ts";
export type {
  NftChain,
  NftElement,
  NftField,
  NftKeyType,
  NftRule,
  NftSet,
  NftStatement,
  NftTable,
} from "./netfilter/model/model.ts";
export { NetfilterSocket } from "./netfilter/table/netfilter_socket.ts";
export {
  type NftNewTable,
  type NftRefill,
  prepareRefill,
  prepareTable,
} from "./netfilter/table/new_table.ts";
export {
  TableMonitor,
  type TableNotification,
} from "./netfilter/table/monitor.ts";
export type { NftCounter } from "./netfilter/table/plan.ts";
export * as nft from "./netfilter/model/statements.ts";
export { netnsIdGet } from "./link/netns_id.ts";
export type { Request } from "./message/request.ts";
export {
  IPV6_METRIC,
  LOCAL_TABLE,
  MAIN_TABLE,
  PROTOCOL_BOOT,
  PROTOCOL_KERNEL,
  type Route,
  wasAddedBy,
} from "./route/route.ts";
export {
  routeAdd,
  routeAddBeside,
  routeDelete,
  routeLookUp,
  routeReplace,
  type RouteTarget,
} from "./route/route_requests.ts";
export {
  type MonitorInterests,
  type Notification,
  RouteMonitor,
} from "./route/route_monitor.ts";
export { RouteSocket } from "./route/route_socket.ts";
export {
  describeRule,
  type Rule,
  ruleAdd,
  ruleDelete,
  ruleText,
} from "./route/rule.ts";
export { type FouEncap, sameTunnel, type TunnelSpec } from "./link/tunnel.ts";
export { linkAddTunnel, linkChangeTunnel } from "./link/tunnel_requests.ts";
