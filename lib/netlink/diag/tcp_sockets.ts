import { Address, type Family } from "../../inet/mod.ts";
import {
  ERRNO,
  NETLINK_SOCK_DIAG,
  type Netns,
  openNetlink,
} from "../../linux/mod.ts";
import { Connection } from "../connection/connection.ts";
import type { Transport } from "../connection/transport.ts";
import { countDeleted, NetlinkError } from "../message/errors.ts";
import { AF_INET, familyNumber } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import type { Request } from "../message/request.ts";

/** Messages of `<linux/inet_diag.h>` and `<linux/sock_diag.h>`. */
const TCPDIAG_GETSOCK = 18;
const SOCK_DESTROY = 21;
const IPPROTO_TCP = 6;
/** States of `<net/tcp_states.h>` with a peer that may still send. */
const TCP_ESTABLISHED = 1;
const TCP_FIN_WAIT1 = 4;
const TCP_FIN_WAIT2 = 5;
const TCP_CLOSE_WAIT = 8;
const TCP_LAST_ACK = 9;
const TCP_CLOSING = 11;
/** These as a set of bits: without SYN_SENT, TIME_WAIT, CLOSE, LISTEN and those before a connection. */
const CONNECTED = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 |
  1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSE_WAIT | 1 << TCP_LAST_ACK |
  1 << TCP_CLOSING;
/** Of the sockets of a namespace: a bound on memory, some 300 bytes each. */
const AT_MOST = 100_000;
/** struct inet_diag_sockid of `<linux/inet_diag.h>`: ports, addresses, link, cookie. */
const ID = { at: 4, size: 48, source: 4, destination: 20 };

/** A connected TCP socket. An IPv4 address of a socket of IPv6 is IPv4 here. */
export interface TcpConnection {
  readonly source: Address;
  readonly sourcePort: number;
  readonly destination: Address;
  readonly destinationPort: number;
}

/** A socket as it was listed. Its ends are read when they are asked for: a pod may have very many. */
export class TcpSocket implements TcpConnection {
  /** Of the socket, not of the addresses. */
  readonly family: Family;
  /** Identifies it, its cookie included: what has the same ends later is another one. */
  readonly id: Uint8Array;

  /** Takes struct inet_diag_sockid. */
  constructor(family: Family, id: Uint8Array) {
    this.family = family;
    this.id = id;
  }

  /** The own address. */
  get source(): Address {
    return this.#addressAt(ID.source);
  }

  /** The own port. */
  get sourcePort(): number {
    return this.#portAt(0);
  }

  /** The peer's address. */
  get destination(): Address {
    return this.#addressAt(ID.destination);
  }

  /** The peer's port. */
  get destinationPort(): number {
    return this.#portAt(2);
  }

  #addressAt(offset: number): Address {
    const size = this.family === "ipv4" ? 4 : 16;
    return unmapped(Address.fromBytes(this.id.subarray(offset, offset + size)));
  }

  #portAt(offset: number): number {
    const { buffer, byteOffset } = this.id;
    return new DataView(buffer, byteOffset).getUint16(offset);
  }
}

/** Ends TCP connections of one network namespace, as their programs see it: with ECONNABORTED, at once. */
export class TcpSockets implements Disposable {
  readonly #connection: Connection;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Opens a socket in a namespace; without one, in the process's own.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(
    options: { readonly netns?: Netns | undefined } = {},
  ): TcpSockets {
    return TcpSockets.over(openNetlink(NETLINK_SOCK_DIAG, options));
  }

  /** Works over a given transport, which it takes over. */
  static over(transport: Transport): TcpSockets {
    return new TcpSockets(new Connection(transport));
  }

  /**
   * Lists the connected sockets of both families, 100,000 at most; undefined when the kernel cannot.
   * The kernel walks through the table of the whole machine. It does so once
   * for the older of its two messages, which has no family
   * (inet_diag_dump_compat() in net/ipv4/inet_diag.c).
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async list(): Promise<readonly TcpSocket[] | undefined> {
    const request: Request = {
      type: TCPDIAG_GETSOCK,
      flags: 0,
      describe: () => "list TCP sockets",
      write(writer) {
        writer.u32(0); // struct inet_diag_req: family and lengths, of no meaning; no extensions
        writer.raw(new Uint8Array(ID.size));
        writer.u32(CONNECTED);
        writer.u32(0);
      },
    };
    try {
      return await this.#connection.dump(request, parse, {
        atMost: AT_MOST,
      });
    } catch (error) {
      // The kernel has no inet_diag, or no tcp_diag.
      const isUnknown = error instanceof NetlinkError &&
        UNKNOWN.includes(error.errno);
      if (isUnknown) return undefined;
      throw error;
    }
  }

  /**
   * Ends listed connections, and returns how many were still there; undefined
   * when the kernel cannot.
   *
   * @throws {NetlinkError} for the first that the kernel refused
   */
  async destroy(sockets: readonly TcpSocket[]): Promise<number | undefined> {
    const outcomes = await this.#connection.tryExecute(
      sockets.map(destruction),
    );
    // The kernel has no CONFIG_INET_DIAG_DESTROY.
    const isUnable = outcomes.some((outcome) =>
      outcome?.errno === ERRNO.EOPNOTSUPP
    );
    // ENOENT: it has gone in the meantime.
    return isUnable ? undefined : countDeleted(outcomes);
  }

  /** Closes the socket. Harmless when done twice. */
  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }
}

const UNKNOWN: readonly number[] = [ERRNO.EOPNOTSUPP, ERRNO.ENOENT];

function destruction(socket: TcpSocket): Request {
  const { family, id } = socket;
  return {
    type: SOCK_DESTROY,
    flags: 0,
    describe() {
      const { source, sourcePort, destination, destinationPort } = socket;
      return `end TCP connection from ${source} port ${sourcePort} to ${destination} port ${destinationPort}`;
    },
    write(writer) {
      writer.u8(familyNumber(family)); // struct inet_diag_req_v2
      writer.u8(IPPROTO_TCP);
      writer.u16(0); // no extensions
      writer.u32(CONNECTED);
      writer.raw(id);
    },
  };
}

/** struct inet_diag_msg. */
function parse({ payload }: Message): TcpSocket {
  const { at, size } = ID;
  return new TcpSocket(
    payload.u8(0) === AF_INET ? "ipv4" : "ipv6",
    payload.bytes.slice(at, at + size),
  );
}

/** ::ffff:0:0/96 of RFC 4291, section 2.5.5.2. */
const MAPPED = 0xffffn << 32n;

function unmapped(address: Address): Address {
  const { family, value } = address;
  return family === "ipv6" && value >> 32n === MAPPED >> 32n
    ? Address.of("ipv4", value & 0xffff_ffffn)
    : address;
}
