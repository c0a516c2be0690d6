import { writeAll } from "../../../lib/async/mod.ts";
import {
  decodeRequest,
  type PluginRequest,
  requestSize,
} from "../../../lib/cnirpc/plugin/mod.ts";

const MEBIBYTE = 1024 * 1024;
/** Most requests are smaller: some 2 KiB. Every connection may take as much. */
const BUFFER_BYTES = 8 * 1024;
/** The largest that the executable's front sends. */
const FRONT_BYTES = 256 * 1024;

/** The memory that requests share: those of the front, and those that are even larger. */
export class RequestMemory {
  readonly #ofFront = { free: 64 * MEBIBYTE };
  readonly #larger = { free: 32 * MEBIBYTE };

  /** Takes memory for a request until disposal. @throws {RangeError} when there is too little */
  take(bytes: number): Disposable {
    const pool = bytes > FRONT_BYTES ? this.#larger : this.#ofFront;
    if (bytes > pool.free) {
      throw new RangeError(
        `Cannot read a request of ${bytes} bytes: other requests use the memory limit; retry`,
      );
    }
    pool.free -= bytes;
    return { [Symbol.dispose]: () => void (pool.free += bytes) };
  }
}

/** The connection of one plugin: one request, one answer. */
export class PluginConnection implements Disposable {
  readonly #socket: Deno.UnixConn;
  readonly #memory: RequestMemory;
  readonly #held = new DisposableStack();
  #hasRequest = false;
  #isClosed = false;
  /** Since when the plugin is to send, or to take, something. */
  #waitsSinceMs: number | undefined;

  constructor(socket: Deno.UnixConn, memory: RequestMemory) {
    this.#socket = socket;
    this.#memory = memory;
  }

  /** Whether a request has come, whole. */
  get hasRequest(): boolean {
    return this.#hasRequest;
  }

  /** Whether the plugin has neither sent nor taken all that it should for so long. */
  isStalled(ms: number): boolean {
    return this.#waitsSinceMs !== undefined &&
      performance.now() - this.#waitsSinceMs >= ms;
  }

  /**
   * Reads the request; undefined when the plugin is gone before its end.
   *
   * @throws {SyntaxError} when it is not a request
   * @throws {RangeError} when there is no memory for it
   */
  async read(): Promise<PluginRequest | undefined> {
    using _waiting = this.#waiting();
    let buffer = new Uint8Array(BUFFER_BYTES);
    for (let length = 0;;) {
      const count = await this.#readInto(buffer.subarray(length));
      if (count === 0) return undefined;
      length += count;
      const size = requestSize(buffer.subarray(0, length));
      if (length === size) {
        this.#hasRequest = true;
        return decodeRequest(buffer.subarray(0, size));
      }
      if (size === undefined) continue;
      if (length > size) {
        throw new SyntaxError(
          "Cannot read a request: data follows the end of the request",
        );
      }
      if (size > buffer.length) {
        this.#held.use(this.#memory.take(size));
        const larger = new Uint8Array(size);
        larger.set(buffer.subarray(0, length));
        buffer = larger;
      }
    }
  }

  /** Writes all of it, unless the plugin is gone. */
  async write(bytes: Uint8Array): Promise<void> {
    using _waiting = this.#waiting();
    try {
      await writeAll(this.#socket, bytes);
    } catch (error) {
      if (!this.#isGone(error)) throw error;
    }
  }

  /** Resolves when the plugin goes, which has sent all that it sends, or after `close()`. */
  async closed(): Promise<void> {
    await this.#readInto(new Uint8Array(1)).catch(() => 0);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#held.dispose();
    this.#socket.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #waiting(): Disposable {
    this.#waitsSinceMs = performance.now();
    return { [Symbol.dispose]: () => void (this.#waitsSinceMs = undefined) };
  }

  /** 0 at the end. */
  async #readInto(buffer: Uint8Array): Promise<number> {
    try {
      return await this.#socket.read(buffer) ?? 0;
    } catch (error) {
      if (this.#isGone(error)) return 0;
      throw error;
    }
  }

  #isGone(error: unknown): boolean {
    return this.#isClosed || error instanceof Deno.errors.BrokenPipe ||
      error instanceof Deno.errors.ConnectionReset;
  }
}
