import { Mutex, sleep } from "../../async/mod.ts";
import { type Bytes, ERRNO } from "../../linux/mod.ts";
import {
  type Batch,
  readOutcomes,
  transportFailure,
} from "./acknowledgements.ts";
import { NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST } from "../message/constants.ts";
import { DumpReader } from "./dump_reader.ts";
import { NetlinkError, type Verdict } from "../message/errors.ts";
import type { Message } from "../message/message_reader.ts";
import { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import type { Trace } from "./trace.ts";
import type { Transport } from "./transport.ts";

export type { Transport } from "./transport.ts";

/** Options of a connection. */
export interface ConnectionOptions {
  /** Sees every datagram. */
  readonly trace?: Trace | undefined;
  /** Waits between the attempts of an interrupted dump; `sleep()` unless a test knows better. */
  readonly wait?: (ms: number) => Promise<void>;
}

/** How requests are sent. */
export interface SendOptions {
  /** All in one datagram of any size: for what the kernel carries out as one transaction. */
  readonly whole?: boolean;
  /** Holding up the event loop: for what the kernel answers within microseconds, without a lock. */
  readonly onThread?: boolean;
}

/** That many acknowledgements fit into the smallest receive buffer that the kernel may leave us with. */
const MAX_REQUESTS_PER_SEND = 256;
/** Well below the default send buffer (net.core.wmem_default is 212992). */
const MAX_BYTES_PER_SEND = 64 << 10;
/** The kernel makes parts of a dump no larger than this, but for a link with very many virtual functions. */
const RECEIVE_BUFFER_BYTES = 64 << 10;
/** More parts than the longest list has; a bound, not a limit. */
const MAX_DRAINED_PARTS = 100_000;
/** Attempts at a dump that others keep changing, about 0.4 s in all. */
const MAX_DUMP_ATTEMPTS = 12;
/**
 * From this attempt on the event loop is held for the millisecond or so that a
 * dump takes: most often it is this process that changes what is being listed.
 */
const FIRST_ATTEMPT_ON_THREAD = 4;
/** The longest wait between two attempts; the first is 1 ms, then it doubles. */
const MAX_DUMP_WAIT_MS = 64;

/** Used only between a receive and the end of the same synchronous function. */
const shared: Bytes = new Uint8Array(RECEIVE_BUFFER_BYTES);

/** Requests and replies over one socket. Several callers may share it: each send with its replies is one turn. */
export class Connection implements Disposable {
  readonly #transport: Transport;
  readonly #trace: Trace | undefined;
  readonly #wait: (ms: number) => Promise<void>;
  readonly #writer = new MessageWriter();
  /** Guards the writer, the sequence and the order of sends and receives. */
  readonly #turn = new Mutex();
  #sequence = 0;
  /** What is in the writer before it is sent. */
  #prepared: { requests: readonly Request[]; batch: Batch } | undefined;
  #dumpBufferBytes = RECEIVE_BUFFER_BYTES;
  #busy = false;
  #closed = false;
  #offThread = false;

  /** Takes over the transport. */
  constructor(transport: Transport, options: ConnectionOptions = {}) {
    this.#transport = transport;
    this.#trace = options.trace;
    this.#wait = options.wait ?? sleep;
  }

  /** The port id of its socket. */
  get portId(): number {
    return this.#transport.portId;
  }

  /**
   * Encodes requests ahead, while the user of a socket waits for something
   * else: `tryExecute()` of this very array then only has to send, unless the
   * socket was used in the meantime.
   */
  prepare(requests: readonly Request[]): void {
    if (this.#turn.isLocked) return;
    const batch = this.#encodePart(requests, 0);
    this.#prepared = { requests, batch };
  }

  /**
   * Sends all requests at once and reads the outcome of each. The kernel
   * carries them out in order and goes on after one that failed. Where the
   * socket is free it is at work on them when this returns its promise.
   */
  async tryExecute(
    requests: readonly Request[],
    options: SendOptions = {},
  ): Promise<(NetlinkError | undefined)[]> {
    using _turn = this.#beginNow() ?? await this.#begin();
    const outcomes: (NetlinkError | undefined)[] = [];
    while (outcomes.length < requests.length) {
      const batch = this.#takePrepared(requests) ??
        (options.whole === true
          ? this.#encode(requests)
          : this.#encodePart(requests, outcomes.length));
      const unsent = await this.#trySend(batch.requests, options);
      outcomes.push(
        ...readOutcomes(batch, {
          transport: this.#transport,
          trace: this.#trace,
          base: outcomes.length,
          unsent,
        }),
      );
    }
    return outcomes;
  }

  /**
   * Asks for a list. `parse` is called once for each entry; its result is
   * kept unless undefined. A list that changed while the kernel wrote it is
   * asked for again. `onThread` is for short lists that need no lock; beyond
   * `atMost` entries nothing is parsed.
   *
   * @throws {NetlinkError} when the kernel refuses; `EINTR` when the list kept changing
   */
  async dump<T>(
    request: Request,
    parse: (message: Message) => T | undefined,
    { atMost, ...options }: Pick<SendOptions, "onThread"> & {
      readonly atMost?: number | undefined;
    } = {},
  ): Promise<T[]> {
    for (let attempt = 1;; attempt++) {
      const onThread = options.onThread === true ||
        attempt >= FIRST_ATTEMPT_ON_THREAD;
      const entries = await this.#dumpOnce(request, {
        parse,
        onThread,
        atMost,
      });
      if (entries !== undefined) return entries;
      if (attempt === MAX_DUMP_ATTEMPTS) break;
      await this.#wait(Math.min(2 ** (attempt - 1), MAX_DUMP_WAIT_MS));
    }
    throw new NetlinkError(request.describe(), {
      errno: ERRNO.EINTR,
      extack: `interrupted ${MAX_DUMP_ATTEMPTS} times`,
    });
  }

  /** Closes the socket, after the running turn if there is one. Harmless when done twice. */
  [Symbol.dispose](): void {
    this.#closed = true;
    if (!this.#busy) this.#transport[Symbol.dispose]();
  }

  /** As `Symbol.dispose`, but the closing itself is done on another thread. */
  async closeOffThread(): Promise<void> {
    this.#closed = true;
    this.#offThread = true;
    using _turn = await this.#turn.lock();
    await this.#transport.closeOffThread();
  }

  /** Waits for this caller's turn. A socket disposed of in between is closed when the turn ends. */
  async #begin(): Promise<Disposable> {
    return this.#begun(await this.#turn.lock());
  }

  /** This caller's turn, if no other has one. */
  #beginNow(): Disposable | undefined {
    const lock = this.#turn.tryLock();
    return lock && this.#begun(lock);
  }

  #begun(lock: Disposable): Disposable {
    if (this.#closed) {
      lock[Symbol.dispose]();
      throw new TypeError("Cannot use netlink socket: closed");
    }
    this.#busy = true;
    return {
      [Symbol.dispose]: () => {
        this.#busy = false;
        if (this.#closed && !this.#offThread) {
          this.#transport[Symbol.dispose]();
        }
        lock[Symbol.dispose]();
      },
    };
  }

  #nextSequence(): number {
    this.#sequence = (this.#sequence % 0xffffffff) + 1;
    return this.#sequence;
  }

  #takePrepared(requests: readonly Request[]): Batch | undefined {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    return prepared?.requests === requests ? prepared.batch : undefined;
  }

  /** Encodes as many requests as one send takes. */
  #encodePart(requests: readonly Request[], from: number): Batch {
    return this.#encode(
      requests.slice(from, from + MAX_REQUESTS_PER_SEND),
      MAX_BYTES_PER_SEND,
    );
  }

  #encode(requests: readonly Request[], maxBytes = Infinity): Batch {
    const batch: Batch = { requests: [], positions: new Map() };
    this.#writer.reset();
    for (const request of requests) {
      const sequence = this.#write(
        request,
        request.silent === true ? 0 : NLM_F_ACK,
      );
      batch.positions.set(sequence, batch.requests.length);
      batch.requests.push(request);
      if (this.#writer.length > maxBytes) break;
    }
    return batch;
  }

  #write(request: Request, flags: number): number {
    const sequence = this.#nextSequence();
    this.#writer.message(
      {
        type: request.type,
        flags: request.flags | flags | NLM_F_REQUEST,
        sequence,
      },
      (writer) => request.write(writer),
    );
    return sequence;
  }

  /** What was written, shown to the trace. */
  #traced(requests: readonly Request[]): Bytes {
    const bytes = this.#writer.bytes();
    this.#trace?.sent(bytes, requests.map((request) => request.describe()));
    return bytes;
  }

  /** Sends what was written. Returns what went wrong: then the kernel has seen none of it. */
  async #trySend(
    requests: readonly Request[],
    options: SendOptions,
  ): Promise<Verdict | undefined> {
    const bytes = this.#traced(requests);
    try {
      if (options.onThread === true) this.#transport.sendNow(bytes);
      else await this.#transport.sendOffThread(bytes);
      return undefined;
    } catch (error) {
      const verdict = transportFailure(error, "while sending");
      return { ...verdict, lost: "request" };
    }
  }

  /** Returns undefined when the dump was interrupted or a part did not fit. */
  async #dumpOnce<T>(
    request: Request,
    options: {
      parse: (message: Message) => T | undefined;
      onThread: boolean;
      atMost: number | undefined;
    },
  ): Promise<T[] | undefined> {
    using _turn = await this.#begin();
    this.#prepared = undefined;
    this.#writer.reset();
    const sequence = this.#write(request, NLM_F_DUMP);
    const { parse, onThread } = options;
    const { portId } = this.#transport;
    const reader = new DumpReader({ sequence, portId }, parse, options);
    const buffer = onThread && this.#dumpBufferBytes === RECEIVE_BUFFER_BYTES
      ? shared
      : new Uint8Array(this.#dumpBufferBytes);
    try {
      if (onThread) {
        this.#transport.sendNow(this.#traced([request]));
        while (reader.verdict === undefined) {
          const length = this.#transport.receiveNow(buffer);
          this.#takePart(reader, buffer, length);
        }
      } else {
        await this.#transport.sendOffThread(this.#traced([request]));
        while (reader.verdict === undefined) {
          const length = await this.#transport.receiveOffThread(buffer);
          this.#takePart(reader, buffer, length);
        }
      }
    } catch (error) {
      this.#drain();
      reader.verdict = transportFailure(error, "while listing");
    }
    return reader.finish(request);
  }

  /**
   * Throws away what is left of a list. The kernel writes its next part when
   * one is received, and begins no other list before the end (EBUSY of
   * __netlink_dump_start() in net/netlink/af_netlink.c).
   */
  #drain(): void {
    for (let parts = 0; parts < MAX_DRAINED_PARTS; parts++) {
      try {
        const length = this.#transport.receiveNow(shared);
        if (length === undefined) return;
      } catch (error) {
        if (transportFailure(error, "while draining").errno !== ERRNO.ENOBUFS) {
          return;
        }
      }
    }
  }

  #takePart<T>(
    reader: DumpReader<T>,
    buffer: Bytes,
    length: number | undefined,
  ): void {
    if (length === undefined) {
      reader.verdict = { errno: ERRNO.EPROTO, extack: "list without an end" };
    } else if (length > buffer.byteLength) {
      reader.interrupted = true;
      this.#dumpBufferBytes = length;
    } else {
      const bytes = buffer.subarray(0, length);
      this.#trace?.received(bytes);
      reader.take(bytes);
    }
  }
}
