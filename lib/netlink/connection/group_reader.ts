import { onAbort } from "../../async/mod.ts";
import {
  type Bytes,
  ERRNO,
  LinuxError,
  type NetlinkSocket,
} from "../../linux/mod.ts";
import { type Message, parseMessages } from "../message/message_reader.ts";

/** Room for one datagram: notifications of rtnetlink are of a few hundred bytes, nf_tables joins several to up to 8 KiB. */
const BUFFER_BYTES = 16 << 10;
/** The most datagrams read at a time. */
const MAX_BATCH = 1_024;

/** There were more notifications than the socket had room for: anything may have happened. */
export interface Overflow {
  readonly kind: "overflow";
}

/**
 * Reads what the kernel sends to the multicast groups of a socket. While it waits
 * it occupies one thread.
 */
export class GroupReader<T> implements AsyncDisposable {
  readonly #socket: NetlinkSocket;
  readonly #parse: (message: Message) => T | undefined;
  readonly #buffer: Bytes = new Uint8Array(BUFFER_BYTES);
  #waiting: Promise<void> | undefined;
  #closed = false;

  /** Takes over the socket. `parse` returns undefined for what is of no interest. */
  constructor(
    socket: NetlinkSocket,
    parse: (message: Message) => T | undefined,
  ) {
    this.#socket = socket;
    this.#parse = parse;
  }

  /**
   * Waits for notifications and returns those that are there; none at all now
   * and then. One call at a time.
   *
   * @throws the signal's reason when it aborts
   */
  async next(
    { signal }: { readonly signal: AbortSignal },
  ): Promise<(T | Overflow)[]> {
    signal.throwIfAborted();
    if (this.#closed) throw new TypeError("Cannot use monitor: closed");
    using _listening = onAbort(signal, () => this.#socket.wake());
    try {
      this.#waiting = this.#socket.waitOffThread();
      await this.#waiting;
    } finally {
      this.#waiting = undefined;
    }
    signal.throwIfAborted();
    return this.#closed ? [] : this.#read();
  }

  /** Stops listening. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#waiting !== undefined) {
      this.#socket.wake();
      await this.#waiting;
    }
    await this.#socket.closeOffThread();
  }

  #read(): (T | Overflow)[] {
    const found: (T | Overflow)[] = [];
    for (let read = 0; read < MAX_BATCH; read++) {
      try {
        const length = this.#socket.receiveNow(this.#buffer);
        if (length === undefined) break;
        found.push(...this.#parseAll(length));
      } catch (error) {
        const isOverflow = error instanceof LinuxError &&
          error.errno === ERRNO.ENOBUFS;
        if (!isOverflow) throw error;
        found.push({ kind: "overflow" });
      }
    }
    return found;
  }

  /** What cannot be understood is as good as lost. */
  #parseAll(length: number): (T | Overflow)[] {
    if (length > this.#buffer.byteLength) return [{ kind: "overflow" }];
    try {
      const messages = parseMessages(this.#buffer.subarray(0, length));
      return [...messages].flatMap((message) => this.#parse(message) ?? []);
    } catch (error) {
      if (error instanceof SyntaxError) return [{ kind: "overflow" }];
      throw error;
    }
  }
}
