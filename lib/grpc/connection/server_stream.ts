import { flowControlError } from "../base/frame_checks.ts";
import { MAX_WINDOW } from "../base/http2_frames.ts";
import { type MessageLimits, MessageReader } from "./message_reader.ts";
import { ReceiveWindow } from "./receive_window.ts";

/** What a caller may send on a stream before it is granted more. */
export const STREAM_WINDOW: number = 256 * 1024;

/** One call on a connection, as HTTP/2 sees it. */
export class ServerStream implements Disposable {
  readonly id: number;
  readonly reader: MessageReader;
  /** The caller has sent all. */
  isRemoteClosed = false;
  /** Ended on the wire: answered, or reset by either side. */
  isClosed = false;
  /** The handler has ended the call. */
  isReleased = false;
  /** The header of the answer is sent. */
  hasHead = false;
  /** The header block that ends the answer, once it is known. */
  trailers: Uint8Array | undefined;
  sendWindow: number;
  /** Framed messages that flow control has not let out. */
  #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  readonly #window = new ReceiveWindow(STREAM_WINDOW);

  constructor(
    id: number,
    options: MessageLimits & { readonly sendWindow: number },
  ) {
    this.id = id;
    this.sendWindow = options.sendWindow;
    this.reader = new MessageReader(options);
  }

  /** Nothing more is to be said on it: it has ended, or will with what is queued. */
  get isAnswered(): boolean {
    return this.isClosed || this.trailers !== undefined;
  }

  get unsentBytes(): number {
    return this.#unsentBytes;
  }

  queue(bytes: Uint8Array): void {
    this.#unsent.push(bytes);
    this.#unsentBytes += bytes.length;
  }

  /** The next bytes to send, at most `size`. */
  take(size: number): Uint8Array {
    const [first = new Uint8Array()] = this.#unsent;
    const taken = first.subarray(0, size);
    if (taken.length === first.length) this.#unsent.shift();
    else this.#unsent[0] = first.subarray(size);
    this.#unsentBytes -= taken.length;
    this.sendWindow -= taken.length;
    return taken;
  }

  /** Counts received bytes: {@linkcode ReceiveWindow.receive}. */
  receive(bytes: number): number {
    return this.#window.receive(bytes);
  }

  /** @throws {Http2Error} when the window becomes too large */
  grow(increment: number): void {
    this.sendWindow += increment;
    if (this.sendWindow > MAX_WINDOW) throw flowControlError();
  }

  /** The stream has ended on the wire: nothing more is sent. */
  close(): void {
    this.isClosed = true;
    this.discard();
  }

  /** Forgets the messages that flow control holds back. */
  discard(): void {
    this.#unsent = [];
    this.#unsentBytes = 0;
  }

  [Symbol.dispose](): void {
    this.reader[Symbol.dispose]();
  }
}
