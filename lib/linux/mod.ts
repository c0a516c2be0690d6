/**
 * The parts of Linux that Deno does not reach by itself: network namespaces,
 * netlink, packet and datagram sockets, sysctls, file locks. The only user of Deno's FFI.
 *
 * @module
 */

export {
  type DatagramEnd,
  DatagramSocket,
  openDatagramSocket,
} from "./datagram_socket.ts";
export { ERRNO, errnoName, LinuxError } from "./errno.ts";
export { HeapKeeper } from "./heap_keeper.ts";
export { type Bytes, openLibc } from "./libc.ts";
export { tryLockFile } from "./lock_file.ts";
export { heapCollector } from "./memory.ts";
export {
  NETLINK_GENERIC,
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  NETLINK_SOCK_DIAG,
  NetlinkSocket,
  openNetlink,
} from "./netlink_socket.ts";
export { inNetns, inNetnsOrHere, Netns, NotANetnsError } from "./netns.ts";
export {
  ETH_P_ARP,
  ETH_P_IPV6,
  openPacketSocket,
  PacketSocket,
} from "./packet_socket.ts";
export {
  acceptIf,
  bytesEqual,
  FILTER_CODES,
  type FilterInstruction,
} from "./socket_filter.ts";
export {
  FORWARDING,
  readSysctl,
  tryReadSysctl,
  writeSysctl,
} from "./sysctl.ts";
