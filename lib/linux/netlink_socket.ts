import { ERRNO, LinuxError } from "./errno.ts";
import { type Bytes, closeFile, lastErrno, lastError, libc } from "./libc.ts";
import { inNetnsOrHere, type Netns } from "./netns.ts";
import { attachFilter, type FilterInstruction } from "./socket_filter.ts";
import {
  MSG_DONTWAIT,
  SOCK_RAW_CLOEXEC,
  SOL_SOCKET,
} from "./socket_numbers.ts";

/** AF_NETLINK of `<linux/socket.h>`. */
const AF_NETLINK = 16;
/** Options of `<asm-generic/socket.h>`. */
const SO_SNDBUF = 7;
const SO_RCVBUF = 8;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;
/** SOL_NETLINK of `<linux/socket.h>`; the options of `<linux/netlink.h>`. */
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;
/** MSG_TRUNC of recv(2). */
const MSG_TRUNC = 0x20;
/** POLLIN of poll(2); errors are reported without being asked for. */
const POLLIN = 1;
/** struct pollfd: descriptor, events, returned events. */
const POLLFD_SIZE = 8;
/** struct nlmsghdr; NLMSG_NOOP, NLM_F_REQUEST and NLM_F_ACK of `<linux/netlink.h>`. */
const NLMSGHDR_SIZE = 16;
const NLMSG_NOOP = 1;
const NLM_F_REQUEST_ACK = 1 | 4;
/** struct sockaddr_nl: family, pad, port id, groups. */
const SOCKADDR_NL_SIZE = 12;
/** Room for some thousand acknowledgements. */
const RECEIVE_BUFFER_BYTES = 4 << 20;

/** The protocols of `<linux/netlink.h>` in use. */
export const NETLINK_ROUTE = 0;
/** Sockets of all kinds: listed, and destroyed. */
export const NETLINK_SOCK_DIAG = 4;
/** Netfilter: nf_tables and connection tracking. */
export const NETLINK_NETFILTER = 12;
/** Generic netlink: families such as fou. */
export const NETLINK_GENERIC = 16;

/**
 * A netlink socket connected to the kernel. Being connected it takes messages
 * only from the kernel (netlink_getsockbyportid() in net/netlink/af_netlink.c).
 */
export class NetlinkSocket implements Disposable {
  #fd: number;
  /** The port id that the kernel gave it and puts into its replies. */
  readonly portId: number;

  /** For `openNetlink()` only. */
  constructor(fd: number, portId: number) {
    this.#fd = fd;
    this.portId = portId;
  }

  /**
   * Sends on the calling thread. The kernel carries out what is asked before
   * this returns; its replies wait in the socket.
   *
   * @throws {LinuxError} when the message was not taken
   */
  sendNow(bytes: Bytes): void {
    if (
      libc().symbols.send(this.#open(), bytes, BigInt(bytes.byteLength), 0) < 0
    ) {
      throw lastError("send to the kernel", "send");
    }
  }

  /**
   * Sends on another thread, so that waiting for the kernel's locks does not
   * hold up the event loop. The bytes must not be touched until it is done,
   * nor the socket disposed.
   *
   * @throws {LinuxError} when the message was not taken
   */
  async sendOffThread(bytes: Bytes): Promise<void> {
    const sent = await libc().symbols.sendOffThread(
      this.#open(),
      bytes,
      BigInt(bytes.byteLength),
      0,
    );
    // The other thread's errno is out of reach. A send that failed was not
    // delivered (netlink_unicast() returns the length otherwise), so doing it
    // again here is safe, and throws the reason.
    if (sent < 0) this.sendNow(bytes);
  }

  /**
   * Receives one datagram if there is one. Returns its full length, which is
   * more than the buffer's when it was cut, or undefined when none is waiting.
   *
   * @throws {LinuxError} `ENOBUFS` when the kernel had to drop replies
   */
  receiveNow(buffer: Bytes): number | undefined {
    const length = libc().symbols.recv(
      this.#open(),
      buffer,
      BigInt(buffer.byteLength),
      MSG_DONTWAIT | MSG_TRUNC,
    );
    if (length >= 0) return length;
    const errno = lastErrno();
    if (errno === ERRNO.EAGAIN) return undefined;
    throw new LinuxError("receive from the kernel", { syscall: "recv", errno });
  }

  /**
   * As `receiveNow()`, on another thread: receiving a part of a dump makes the
   * kernel write the next one, under its locks.
   */
  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    const length = await libc().symbols.recvOffThread(
      this.#open(),
      buffer,
      BigInt(buffer.byteLength),
      MSG_DONTWAIT | MSG_TRUNC,
    );
    // No errno here either: receiving again on this thread gets it.
    return length >= 0 ? length : this.receiveNow(buffer);
  }

  /**
   * Waits on another thread until there is something to receive, or the socket
   * has an error. One wait at a time; `wake()` ends it. The socket must not be
   * closed before that.
   */
  async waitOffThread(): Promise<void> {
    const pollfd = new DataView(new ArrayBuffer(POLLFD_SIZE));
    pollfd.setInt32(0, this.#open(), true);
    pollfd.setInt16(4, POLLIN, true);
    const bytes = new Uint8Array(pollfd.buffer);
    // What made it return, a signal included, shows at the next receive.
    await libc().symbols.pollOffThread(bytes, 1n, -1);
  }

  /**
   * Ends a wait: has the kernel acknowledge a message that does nothing
   * (netlink_rcv_skb() of net/netlink/af_netlink.c).
   *
   * @throws {LinuxError} when the message was not taken
   */
  wake(): void {
    const message = new DataView(new ArrayBuffer(NLMSGHDR_SIZE));
    message.setUint32(0, NLMSGHDR_SIZE, true);
    message.setUint16(4, NLMSG_NOOP, true);
    message.setUint16(6, NLM_F_REQUEST_ACK, true);
    this.sendNow(new Uint8Array(message.buffer));
  }

  /** Closes the socket; harmless when done twice. */
  [Symbol.dispose](): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    closeFile(fd);
  }

  /**
   * As `Symbol.dispose`, on another thread: closing a netfilter socket waits
   * until the kernel has freed what any program deleted from nf_tables before
   * (nft_rcv_nl_event() in net/netfilter/nf_tables_api.c), about 10 ms.
   */
  async closeOffThread(): Promise<void> {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    await libc().symbols.closeOffThread(fd);
  }

  #open(): number {
    if (this.#fd < 0) throw new TypeError("Cannot use netlink socket: closed");
    return this.#fd;
  }
}

/** Options of `openNetlink()`. */
export interface NetlinkOptions {
  /** Where the socket lives; without it, the process's own namespace. */
  readonly netns?: Netns | undefined;
  /** Room for what is sent at once; without it the default of net.core.wmem_default. */
  readonly sendBufferBytes?: number;
  /** Room for what is not received yet. Default 4 MiB. */
  readonly receiveBufferBytes?: number | undefined;
  /** Multicast groups to join, RTNLGRP_… of `<linux/rtnetlink.h>`. */
  readonly groups?: readonly number[];
  /** Which messages the kernel puts into the socket; all of them without it. Attached before the groups are joined. */
  readonly filter?: readonly FilterInstruction[];
}

/**
 * Opens a netlink socket with extended, capped acknowledgements and strict
 * checking of dump requests, and lets the kernel give it a port id.
 *
 * @throws {LinuxError} when the kernel refuses
 */
export function openNetlink(
  protocol: number,
  options: NetlinkOptions = {},
): NetlinkSocket {
  return inNetnsOrHere(options.netns, () => openHere(protocol, options));
}

function openHere(
  protocol: number,
  options: NetlinkOptions,
): NetlinkSocket {
  const { sendBufferBytes, filter, groups = [] } = options;
  const action = "open netlink socket";
  const { symbols } = libc();
  const fd = symbols.socket(AF_NETLINK, SOCK_RAW_CLOEXEC, protocol);
  if (fd < 0) throw lastError(action, "socket");
  try {
    setBuffer(
      fd,
      RECEIVE_BUFFER,
      options.receiveBufferBytes ?? RECEIVE_BUFFER_BYTES,
    );
    if (sendBufferBytes !== undefined) {
      setBuffer(fd, SEND_BUFFER, sendBufferBytes);
    }
    for (
      const option of [NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK]
    ) {
      if (!setOption(fd, SOL_NETLINK, option, 1)) {
        throw lastError(action, "setsockopt");
      }
    }
    if (filter !== undefined) attachFilter(fd, filter);
    const portId = connect(fd, action);
    for (const group of groups) {
      if (!setOption(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)) {
        throw lastError(`join netlink group ${group}`, "setsockopt");
      }
    }
    return new NetlinkSocket(fd, portId);
  } catch (error) {
    closeFile(fd);
    throw error;
  }
}

/** The forced variants ignore net.core.rmem_max and wmem_max but need CAP_NET_ADMIN in the first user namespace. */
const RECEIVE_BUFFER = [SO_RCVBUFFORCE, SO_RCVBUF] as const;
const SEND_BUFFER = [SO_SNDBUFFORCE, SO_SNDBUF] as const;

function setBuffer(
  fd: number,
  options: readonly number[],
  size: number,
): void {
  if (options.some((option) => setOption(fd, SOL_SOCKET, option, size))) return;
  throw lastError("open netlink socket", "setsockopt");
}

function setOption(
  fd: number,
  level: number,
  option: number,
  value: number,
): boolean {
  const bytes = new Uint8Array(new Int32Array([value]).buffer);
  return libc().symbols.setsockopt(fd, level, option, bytes, 4) === 0;
}

/** Connects to the kernel, port id 0, and returns the port id given to the socket. */
function connect(fd: number, action: string): number {
  const { symbols } = libc();
  const address = new DataView(new ArrayBuffer(SOCKADDR_NL_SIZE));
  const bytes = new Uint8Array(address.buffer);
  address.setUint16(0, AF_NETLINK, true);
  if (symbols.connect(fd, bytes, SOCKADDR_NL_SIZE) < 0) {
    throw lastError(action, "connect");
  }
  const length = new Uint8Array(new Uint32Array([SOCKADDR_NL_SIZE]).buffer);
  if (symbols.getsockname(fd, bytes, length) < 0) {
    throw lastError(action, "getsockname");
  }
  return address.getUint32(4, true);
}
