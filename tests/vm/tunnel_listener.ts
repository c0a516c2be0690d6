// A pod that is not a gateway, and has the address of one.
import { FOU_PORT } from "../../lib/names/mod.ts";
import { NetnsSockets } from "./traffic.ts";

/** The source inside a probe, 192.0.0.8, and where it is in the datagram. */
const PROBE = { source: [192, 0, 0, 8], at: 12 };

/** A program that has the tunnel's port, in a pod that is not a gateway. */
export class Stranger implements AsyncDisposable {
  readonly #sockets: NetnsSockets;
  readonly #socket: Deno.DatagramConn;
  readonly #done: Promise<void>;
  /** Datagrams of nodes, and others. */
  probes = 0;
  packets = 0;

  constructor(netns: string) {
    this.#sockets = new NetnsSockets(netns);
    this.#socket = this.#sockets.listenDatagram("0.0.0.0", FOU_PORT);
    this.#done = this.#count();
  }

  async #count(): Promise<void> {
    for await (const [data] of this.#socket) {
      const { at, source } = PROBE;
      const isProbe = source.every((byte, i) => data[at + i] === byte);
      if (isProbe) this.probes++;
      else this.packets++;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await this.#done;
    this.#sockets[Symbol.dispose]();
  }
}
