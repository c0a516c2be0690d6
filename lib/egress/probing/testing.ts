import { Address } from "../../inet/mod.ts";
import { type Bytes, type DatagramEnd, LinuxError } from "../../linux/mod.ts";
import type { ProbeSocket } from "./probe_line.ts";

const NODE = Address.parse("10.1.1.1");
/** Behind the headers of IPv4 and UDP. */
export const PROBE_PAYLOAD_AT = 28;

/** Gateways that bring probes back, or do not. */
export class ProbedGateways {
  /** Gateways that answer. */
  readonly alive: Set<string> = new Set();
  /** Gateways to which there is no route. */
  readonly unreachable: Set<string> = new Set();
  /** Whether the next probe of a gateway is lost on its way. */
  isLost: (gateway: string) => boolean = () => false;
  /** How many errors of earlier datagrams wait, by gateway: each spoils one call, as the kernel does it. */
  readonly refusals: Map<string, number> = new Map();
  /** The last probe of each. */
  readonly sent: Map<string, Bytes> = new Map();
  /** Datagrams that wait, by gateway. */
  readonly waiting: Map<string, Bytes[]> = new Map();
  /** How many probes each has got. */
  readonly counts: Map<string, number> = new Map();
  /** How many sockets are open. */
  open = 0;

  /** Opens a socket to a gateway. */
  socket({ address }: DatagramEnd): ProbeSocket {
    const key = address.toString();
    this.#refuse(key);
    this.open++;
    const waiting: Bytes[] = [];
    this.waiting.set(key, waiting);
    return {
      local: { address: NODE, port: 40_000 },
      sendNow: (bytes) => {
        this.#refuse(key);
        this.#spoil(key, "send");
        this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
        this.sent.set(key, bytes);
        if (!this.alive.has(key) || this.isLost(key)) return;
        waiting.push(bytes.slice(PROBE_PAYLOAD_AT));
      },
      receiveNow: (buffer) => {
        this.#spoil(key, "recv");
        const bytes = waiting.shift();
        if (bytes !== undefined) buffer.set(bytes);
        return bytes?.length;
      },
      [Symbol.dispose]: () => void this.open--,
    };
  }

  #refuse(key: string): void {
    if (!this.unreachable.has(key)) return;
    throw new LinuxError("send a datagram", { syscall: "send", errno: 113 });
  }

  #spoil(key: string, syscall: string): void {
    const left = this.refusals.get(key) ?? 0;
    if (left === 0) return;
    this.refusals.set(key, left - 1);
    throw new LinuxError("exchange a datagram", { syscall, errno: 111 });
  }
}
