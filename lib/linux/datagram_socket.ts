import { Address, type Family } from "../inet/mod.ts";
import { ERRNO, LinuxError } from "./errno.ts";
import { type Bytes, closeFile, lastErrno, lastError, libc } from "./libc.ts";
import { inNetnsOrHere, type Netns } from "./netns.ts";
import {
  acceptIf,
  attachFilter,
  bytesEqual,
  FILTER_CODES,
  type FilterInstruction,
} from "./socket_filter.ts";

/** AF_INET and AF_INET6 of `<linux/socket.h>`. */
const FAMILY = { ipv4: 2, ipv6: 10 } as const;
/** SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC of socket(2). */
const SOCK_DGRAM = 2 | 0o4000 | 0o2000000;
/** Where the address is in struct sockaddr_in (ip(7)) and sockaddr_in6 (ipv6(7)); the port is at 2 in both. */
const SOCKADDR = {
  ipv4: { size: 16, address: 4, length: 4 },
  ipv6: { size: 28, address: 8, length: 16 },
} as const;
const PORT_OFFSET = 2;
/** What a filter of a UDP socket sees before the payload: RFC 768. */
const UDP_HEADER = 8;
/**
 * IPPROTO_IP with IP_MTU_DISCOVER, IPPROTO_IPV6 with IPV6_MTU_DISCOVER, of
 * `<linux/in.h>` and `<linux/in6.h>`.
 */
const MTU_DISCOVER = {
  ipv4: { level: 0, option: 10 },
  ipv6: { level: 41, option: 23 },
} as const;
/** IP_PMTUDISC_PROBE and IPV6_PMTUDISC_PROBE: never in fragments, and the MTU that is known of the path does not count. */
const PMTUDISC_PROBE = new Uint8Array(new Int32Array([3]).buffer);

/** One end of an exchange of datagrams. */
export interface DatagramEnd {
  readonly address: Address;
  readonly port: number;
}

/**
 * A UDP socket that is connected: it sends to one peer, and the kernel gives it
 * datagrams of that peer only, even while others flood its port. Never waits.
 */
export class DatagramSocket implements Disposable {
  #fd: number;
  /** The address and port that the kernel chose for it. */
  readonly local: DatagramEnd;

  /** For `openDatagramSocket()` only. */
  constructor(fd: number, local: DatagramEnd) {
    this.#fd = fd;
    this.local = local;
  }

  /** @throws {LinuxError} when the datagram was not taken, or an earlier one was refused by the peer */
  sendNow(bytes: Bytes): void {
    const { symbols } = libc();
    const size = BigInt(bytes.byteLength);
    if (symbols.send(this.#open(), bytes, size, 0) >= 0) return;
    throw lastError("send a datagram", "send");
  }

  /**
   * Receives one datagram if there is one: its length in the buffer, or undefined.
   *
   * @throws {LinuxError} when an earlier datagram was refused by the peer
   */
  receiveNow(buffer: Bytes): number | undefined {
    const size = BigInt(buffer.byteLength);
    const length = libc().symbols.recv(this.#open(), buffer, size, 0);
    if (length >= 0) return length;
    const errno = lastErrno();
    if (errno === ERRNO.EAGAIN) return undefined;
    throw new LinuxError("receive a datagram", { syscall: "recv", errno });
  }

  /** Closes the socket; harmless when done twice. */
  [Symbol.dispose](): void {
    if (this.#fd < 0) return;
    closeFile(this.#fd);
    this.#fd = -1;
  }

  #open(): number {
    if (this.#fd < 0) throw new TypeError("Cannot use datagram socket: closed");
    return this.#fd;
  }
}

/** How a datagram socket is opened. */
export interface DatagramOptions {
  readonly netns?: Netns | undefined;
  /** Datagrams that begin otherwise are thrown away, and do not fill the socket. Its length is a multiple of four, at most 508. */
  readonly prefix?: Bytes;
  /**
   * Datagrams are sent whole or not at all, up to the MTU of the link: what the
   * kernel knows of the path's is ignored. A router that says that one is too
   * large makes the next call fail with EMSGSIZE.
   */
  readonly neverFragment?: boolean;
}

/**
 * Opens a socket to a peer; the kernel chooses its own end by the route.
 *
 * @throws {LinuxError} when the kernel refuses, as without a route
 */
export function openDatagramSocket(
  peer: DatagramEnd,
  options: DatagramOptions = {},
): DatagramSocket {
  return inNetnsOrHere(options.netns, () => openHere(peer, options));
}

function openHere(
  { address, port }: DatagramEnd,
  { prefix = new Uint8Array(), neverFragment = false }: DatagramOptions,
): DatagramSocket {
  const action = "open datagram socket";
  const { symbols } = libc();
  const { family } = address;
  const { size, address: at, length } = SOCKADDR[family];
  const fd = symbols.socket(FAMILY[family], SOCK_DGRAM, 0);
  if (fd < 0) throw lastError(action, "socket");
  try {
    const end = new DataView(new ArrayBuffer(size));
    const bytes = new Uint8Array(end.buffer);
    end.setUint16(0, FAMILY[family], true);
    end.setUint16(PORT_OFFSET, port); // in network order
    bytes.set(address.toBytes(), at);
    // Before anything can come.
    if (prefix.length > 0) attachFilter(fd, beginningWith(prefix));
    if (neverFragment) probePathMtu(fd, family);
    if (symbols.connect(fd, bytes, size) < 0) {
      throw lastError(action, "connect");
    }
    const room = new Uint8Array(new Uint32Array([size]).buffer);
    if (symbols.getsockname(fd, bytes, room) < 0) {
      throw lastError(action, "getsockname");
    }
    return new DatagramSocket(fd, {
      address: Address.fromBytes(bytes.subarray(at, at + length)),
      port: end.getUint16(PORT_OFFSET),
    });
  } catch (error) {
    closeFile(fd);
    throw error;
  }
}

function probePathMtu(fd: number, family: Family): void {
  const { level, option } = MTU_DISCOVER[family];
  const value = PMTUDISC_PROBE;
  const size = value.length;
  if (libc().symbols.setsockopt(fd, level, option, value, size) >= 0) return;
  throw lastError("forbid fragments of datagrams", "setsockopt");
}

/** A program for UDP sockets. One that reads behind the end of a datagram throws it away. */
function beginningWith(prefix: Bytes): FilterInstruction[] {
  return [
    ...acceptIf(bytesEqual(UDP_HEADER, prefix)),
    { code: FILTER_CODES.return, k: 0 },
  ];
}
