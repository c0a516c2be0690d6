import { sleep } from "../lab/mod.ts";
import { BEFORE_RETRY_MS, ECHO_PORT, type NetnsSockets } from "./traffic.ts";

const CONNECT_MS = BEFORE_RETRY_MS;
/** So many bytes are asked for at once, and then there is a pause: a megabyte in a second. */
const PIECE_BYTES = 20_000;
const PAUSE_MS = 20;

/** A download that goes on for ever, and begins again when its connection ends or none can be made. */
export class Download implements AsyncDisposable {
  readonly #sockets: NetnsSockets;
  readonly #address: string;
  readonly #done: Promise<void>;
  #conn: Deno.TcpConn | undefined;
  #isStopped = false;
  #lastMs = performance.now();
  #longestMs = 0;
  /** Addresses that the outside saw. */
  readonly sources: Set<string> = new Set();

  constructor(sockets: NetnsSockets, address: string) {
    this.#sockets = sockets;
    this.#address = address;
    this.#done = this.#run();
  }

  /** Since the last byte. */
  get silentMs(): number {
    return performance.now() - this.#lastMs;
  }

  /** The longest time without a byte. */
  get longestGapMs(): number {
    return Math.round(Math.max(this.#longestMs, this.silentMs));
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.#load().catch(() => {}); // and again
    }
  }

  async #load(): Promise<void> {
    const options = { port: ECHO_PORT, timeoutMs: CONNECT_MS };
    using conn = await this.#sockets.connect(this.#address, options);
    this.#conn = conn;
    const buffer = new Uint8Array(PIECE_BYTES);
    const length = await conn.read(buffer) ?? 0;
    const source = new TextDecoder().decode(buffer.subarray(0, length)).trim();
    this.sources.add(source);
    while (!this.#isStopped) {
      await conn.write(new TextEncoder().encode(`BULK ${PIECE_BYTES}\n`));
      for (let left = PIECE_BYTES; left > 0;) {
        const read = await conn.read(buffer);
        if (read === null) return;
        left -= read;
        this.#longestMs = Math.max(this.#longestMs, this.silentMs);
        this.#lastMs = performance.now();
      }
      await sleep(PAUSE_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    try {
      this.#conn?.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
    await this.#done;
  }
}
