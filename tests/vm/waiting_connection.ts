import { sleep } from "../lab/mod.ts";
import { BEFORE_RETRY_MS, ECHO_PORT, type NetnsSockets } from "./traffic.ts";

/** A connection on which a program waits for an answer that does not come. */
export class WaitingConnection implements AsyncDisposable {
  /** The address that the outside saw. */
  readonly sources: ReadonlySet<string>;
  readonly #conn: Deno.TcpConn;
  readonly #done: Promise<void>;
  #endedMs: number | undefined;
  #isClosed = false;

  private constructor(conn: Deno.TcpConn, source: string) {
    this.#conn = conn;
    this.sources = new Set([source]);
    this.#done = this.#wait();
  }

  static async open(
    sockets: NetnsSockets,
    address: string,
  ): Promise<WaitingConnection> {
    const options = { port: ECHO_PORT, timeoutMs: BEFORE_RETRY_MS };
    using stack = new DisposableStack();
    const conn = stack.use(await sockets.connect(address, options));
    const buffer = new Uint8Array(64);
    const length = await conn.read(buffer) ?? 0;
    const text = new TextDecoder().decode(buffer.subarray(0, length));
    stack.move();
    return new WaitingConnection(conn, text.trim());
  }

  /** When the program was told that the connection has ended. */
  get endedMs(): number | undefined {
    return this.#endedMs;
  }

  /** Whether it still leads to the other end: that is asked, and answers in time. */
  async works(timeoutMs: number): Promise<boolean> {
    if (this.#endedMs !== undefined) return false;
    await this.#conn.write(new TextEncoder().encode("x")).catch(() => {});
    const over = new AbortController();
    const isLate = sleep(timeoutMs, { signal: over.signal })
      .then(() => false, () => false);
    try {
      return await Promise.race([
        this.#done.then(() => this.#endedMs === undefined),
        isLate,
      ]);
    } finally {
      over.abort();
    }
  }

  async #wait(): Promise<void> {
    const read = this.#conn.read(new Uint8Array(64));
    const length = await read.catch(() => null);
    if (length === null && !this.#isClosed) this.#endedMs = performance.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#conn.close();
    await this.#done;
  }
}
