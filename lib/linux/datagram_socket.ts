import { Address } from "../inet/mod.ts";
import { LinuxError } from "./errno.ts";
import { type Bytes, closeFile, lastErrno, lastError, libc } from "./libc.ts";
import { inNetns, type Netns } from "./netns.ts";

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
/** EAGAIN: nothing there to receive. */
const EAGAIN = 11;

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
    if (errno === EAGAIN) return undefined;
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

/**
 * Opens a socket to a peer; the kernel chooses its own end by the route.
 *
 * @throws {LinuxError} when the kernel refuses, as without a route
 */
export function openDatagramSocket(
  peer: DatagramEnd,
  options: { readonly netns?: Netns | undefined } = {},
): DatagramSocket {
  const { netns } = options;
  const open = () => openHere(peer);
  return netns === undefined ? open() : inNetns(netns, open);
}

function openHere({ address, port }: DatagramEnd): DatagramSocket {
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
