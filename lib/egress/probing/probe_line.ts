import type { Address } from "../../inet/mod.ts";
import { type Bytes, type DatagramEnd, LinuxError } from "../../linux/mod.ts";
import { udpPacket } from "../../probe/mod.ts";
import { PROBE_SOURCE } from "../kernel/path_probe.ts";

/** What probing needs of a socket that is connected to a gateway. */
export interface ProbeSocket extends Disposable {
  readonly local: DatagramEnd;
  sendNow(bytes: Bytes): void;
  receiveNow(buffer: Bytes): number | undefined;
}

/** Opens a socket to a gateway's port of the tunnel, for datagrams that begin with the prefix. @throws {LinuxError} when the kernel refuses */
export type OpenProbeSocket = (
  peer: DatagramEnd,
  options: { readonly prefix: Bytes },
) => ProbeSocket;

const SECRET_BYTES = 12;
const NUMBER_BYTES = 4;
const PAYLOAD_BYTES = SECRET_BYTES + NUMBER_BYTES;
/** So many errors of a socket are read before its answers; anyone can send ICMP messages that make them. */
const MAX_ERRORS = 16;

/**
 * The exchange of probes with one gateway. A probe is what a client's packet is:
 * IP in a datagram of the tunnel. It is addressed to the socket that it was
 * sent from, so that the gateway's kernel, not a program, brings it back; and
 * from the tunnel's port, so that on the way back it looks like an answer to
 * the datagram that took it there, to firewalls too.
 */
export class ProbeLine implements Disposable {
  readonly #peer: DatagramEnd;
  readonly #open: OpenProbeSocket;
  /** So that nothing but an answer is one; and that clients, who can send by the gateway to this socket, fill nothing. */
  readonly #secret: Bytes = crypto.getRandomValues(
    new Uint8Array(SECRET_BYTES),
  );
  #socket: ProbeSocket | undefined;
  #sent = 0;
  #answered = 0;

  constructor(gateway: Address, port: number, open: OpenProbeSocket) {
    this.#peer = { address: gateway, port };
    this.#open = open;
  }

  /** Sends a probe. One that the kernel does not take is one without an answer. */
  send(): void {
    const payload = new Uint8Array(PAYLOAD_BYTES);
    payload.set(this.#secret);
    new DataView(payload.buffer).setUint32(SECRET_BYTES, ++this.#sent);
    const { address, port } = this.#peer;
    const from = { address: PROBE_SOURCE[address.family], port };
    const isSent = () =>
      unlessRefused(() => {
        this.#socket ??= this.#open(this.#peer, { prefix: this.#secret });
        const { local: to } = this.#socket;
        this.#socket.sendNow(udpPacket({ from, to, payload }));
        return true;
      });
    // The error may be that of an earlier probe, and is over then.
    if (isSent() === undefined) isSent();
  }

  /** Whether an answer has come since the last call, to any probe that had none. */
  takeAnswers(): boolean {
    const before = this.#answered;
    const buffer = new Uint8Array(PAYLOAD_BYTES + 1);
    const receive = () => this.#socket?.receiveNow(buffer) ?? "none";
    let [left, errors] = [this.#sent - before + 1, MAX_ERRORS];
    while (left > 0 && errors > 0 && this.#answered < this.#sent) {
      const length = unlessRefused(receive);
      if (length === "none") break;
      if (length === undefined) errors--;
      else left--;
      if (length === PAYLOAD_BYTES) this.#take(buffer);
    }
    return this.#answered > before;
  }

  /** Lets the next probe leave by another socket: routes and own addresses may have changed. */
  reopen(): void {
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
  }

  [Symbol.dispose](): void {
    this.reopen();
  }

  #take(answer: Bytes): void {
    if (this.#secret.some((byte, i) => byte !== answer[i])) return;
    const number = new DataView(answer.buffer).getUint32(SECRET_BYTES);
    if (number > this.#sent) return;
    this.#answered = Math.max(this.#answered, number);
  }
}

/** Without a route, or where no socket has the port, the kernel refuses; undefined then. */
function unlessRefused<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    if (error instanceof LinuxError) return undefined;
    throw error;
  }
}
