import { ERRNO, LinuxError } from "./errno.ts";
import { type Bytes, closeFile, lastErrno, lastError, libc } from "./libc.ts";
import { inNetnsOrHere, type Netns } from "./netns.ts";
import { attachFilter, type FilterInstruction } from "./socket_filter.ts";
import { MSG_DONTWAIT, SOCK_RAW_CLOEXEC } from "./socket_numbers.ts";

/** AF_PACKET of `<linux/socket.h>`. */
const AF_PACKET = 17;
/** struct sockaddr_ll of packet(7): family, protocol, index, and what is not needed to bind. */
const SOCKADDR_LL_SIZE = 20;
/** Nothing there to receive, or the link went down once; the socket goes on. */
const NOTHING: ReadonlySet<number> = new Set([ERRNO.EAGAIN, ERRNO.ENETDOWN]);

/** ETH_P_ARP of `<linux/if_ether.h>`. */
export const ETH_P_ARP = 0x0806;
/** ETH_P_IPV6 of `<linux/if_ether.h>`. */
export const ETH_P_IPV6 = 0x86dd;

/** Sends frames by one link, and receives those of one protocol that come in by it. */
export class PacketSocket implements AsyncDisposable {
  #fd: number;

  /** For `openPacketSocket()` only. */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** @throws {LinuxError} when the frame was not taken, as by a link that is down */
  sendNow(frame: Bytes): void {
    const { symbols } = libc();
    const size = BigInt(frame.byteLength);
    if (symbols.send(this.#open(), frame, size, MSG_DONTWAIT) >= 0) return;
    throw lastError("send a frame", "send");
  }

  /**
   * Receives one frame if there is one: its length in the buffer, or undefined.
   *
   * @throws {LinuxError} when the link is gone
   */
  receiveNow(buffer: Bytes): number | undefined {
    const size = BigInt(buffer.byteLength);
    const length = libc().symbols.recv(
      this.#open(),
      buffer,
      size,
      MSG_DONTWAIT,
    );
    if (length >= 0) return length;
    const errno = lastErrno();
    if (NOTHING.has(errno)) return undefined;
    throw new LinuxError("receive a frame", { syscall: "recv", errno });
  }

  /** Closes on another thread: the kernel waits for a grace period (packet_release() of net/packet/af_packet.c). */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    await libc().symbols.closeOffThread(fd);
  }

  #open(): number {
    if (this.#fd < 0) throw new TypeError("Cannot use packet socket: closed");
    return this.#fd;
  }
}

/**
 * Opens a socket for frames of one protocol on one link. It has no protocol
 * before it is bound: changing it would wait for a grace period.
 *
 * @throws {LinuxError} when the kernel refuses; without CAP_NET_RAW it does
 */
export function openPacketSocket(
  options: {
    readonly netns?: Netns | undefined;
    /** Of the link. */
    readonly index: number;
    readonly protocol: number;
    /** Which frames are kept for the reader; all without it. */
    readonly filter?: readonly FilterInstruction[];
  },
): PacketSocket {
  return inNetnsOrHere(options.netns, () => openHere(options));
}

function openHere(
  { index, protocol, filter }: Parameters<typeof openPacketSocket>[0],
): PacketSocket {
  const { symbols } = libc();
  const action = "open packet socket";
  // Raw: frames with their Ethernet header.
  const fd = symbols.socket(AF_PACKET, SOCK_RAW_CLOEXEC, 0);
  if (fd < 0) throw lastError(action, "socket");
  const address = new DataView(new ArrayBuffer(SOCKADDR_LL_SIZE));
  address.setUint16(0, AF_PACKET, true);
  address.setUint16(2, protocol); // in network order
  address.setInt32(4, index, true);
  const bytes = new Uint8Array(address.buffer);
  try {
    if (filter !== undefined) attachFilter(fd, filter);
    if (symbols.bind(fd, bytes, SOCKADDR_LL_SIZE) === 0) {
      return new PacketSocket(fd);
    }
    throw lastError(action, "bind");
  } catch (error) {
    closeFile(fd);
    throw error;
  }
}
