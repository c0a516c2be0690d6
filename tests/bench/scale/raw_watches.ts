// Thousands of watches from one process: connections of HTTP/2 of which only
// the bytes are counted. A node has a connection of its own; here many share one.
import { concatenate } from "../../../lib/bytes/mod.ts";
import { encodeHeaders } from "../../../lib/grpc/base/hpack.ts";
import {
  CONNECTION_PREFACE,
  encodeFrame,
  encodeSettings,
  encodeUint32,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  MAX_WINDOW,
  Setting,
} from "../../../lib/grpc/base/http2_frames.ts";
import type { ControlPlane } from "../../lab/mod.ts";
import { many } from "../many.ts";

/** As many as the API server allows. */
const STREAMS = 100;
/** Connections that are opened at the same time. */
const WIDTH = 8;
/** First byte of a header block that begins with `:status: 200`, RFC 7541, appendix A. */
const STATUS_200 = 0x88;
const LINE_END = 0x0a;
/** Window of a connection. */
const GRANT = 2 ** 29;

const encoder = new TextEncoder();

/** Watches that are open until disposed of. */
export class RawWatches implements Disposable {
  readonly #connections: RawConnection[] = [];

  /** Opens a watch for each path, and returns when all have been answered. */
  static async open(
    plane: ControlPlane,
    uris: readonly string[],
    log: (text: string) => void,
  ): Promise<RawWatches> {
    using undo = new DisposableStack();
    const watches = undo.use(new RawWatches());
    const count = Math.ceil(uris.length / STREAMS);
    let open = 0;
    await many(count, WIDTH, async (i) => {
      const connection = await RawConnection.open(plane);
      watches.#connections.push(connection);
      await connection.watch(uris.slice(i * STREAMS, (i + 1) * STREAMS));
      if (++open % 50 === 0) log(`${open * STREAMS} watches`);
    });
    undo.move();
    return watches;
  }

  /** Events that have come. */
  get events(): number {
    return this.#connections.reduce((sum, { events }) => sum + events, 0);
  }

  /** Their bytes. */
  get bytes(): number {
    return this.#connections.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections) connection.close();
  }
}

class RawConnection {
  bytes = 0;
  /** Each ends its line. */
  events = 0;
  #granted = 0;
  readonly #socket: Deno.TlsConn;
  readonly #plane: ControlPlane;
  #unanswered = 0;
  readonly #answered = Promise.withResolvers<void>();
  #isClosed = false;

  private constructor(plane: ControlPlane, socket: Deno.TlsConn) {
    this.#plane = plane;
    this.#socket = socket;
  }

  static async open(plane: ControlPlane): Promise<RawConnection> {
    const { hostname, port } = new URL(plane.url);
    const socket = await Deno.connectTls({
      hostname,
      port: Number(port),
      caCerts: [plane.ca],
      alpnProtocols: ["h2"],
    });
    return new RawConnection(plane, socket);
  }

  async watch(uris: readonly string[]): Promise<void> {
    this.#unanswered = uris.length;
    const settings = encodeSettings([
      [Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW],
    ]);
    await this.#write([
      encoder.encode(CONNECTION_PREFACE),
      encodeFrame(FrameType.SETTINGS, { payload: settings }),
      windowUpdate(GRANT),
      ...uris.map((uri, i) => this.#request(2 * i + 1, uri)),
    ]);
    this.#read().catch((error) => {
      if (!this.#isClosed) this.#answered.reject(error);
    });
    await this.#answered.promise;
  }

  #request(streamId: number, uri: string): Uint8Array {
    const payload = encodeHeaders([
      [":method", "GET"],
      [":scheme", "https"],
      [":authority", new URL(this.#plane.url).host],
      [":path", uri],
      ["authorization", `Bearer ${this.#plane.adminToken}`],
      ["accept", "application/json"],
    ]);
    const flags = Flag.END_HEADERS | Flag.END_STREAM;
    return encodeFrame(FrameType.HEADERS, { streamId, flags, payload });
  }

  async #read(): Promise<void> {
    const frames = new FrameReader();
    const buffer = new Uint8Array(2 ** 16);
    for (;;) {
      const length = await this.#socket.read(buffer);
      if (length === null) throw new Error("The API server hung up");
      for (const frame of frames.push(buffer.subarray(0, length))) {
        await this.#take(frame);
      }
    }
  }

  async #take({ type, flags, payload }: Frame): Promise<void> {
    if (type === FrameType.DATA) await this.#count(payload);
    if (type === FrameType.HEADERS) this.#noteAnswer(payload);
    if (type === FrameType.GOAWAY || type === FrameType.RST_STREAM) {
      throw new Error(`The API server ended a watch, frame ${type}`);
    }
    const isQuestion = (flags & Flag.ACK) === 0;
    if (!isQuestion) return;
    if (type === FrameType.SETTINGS) {
      await this.#write([encodeFrame(type, { flags: Flag.ACK })]);
    } else if (type === FrameType.PING) {
      await this.#write([encodeFrame(type, { flags: Flag.ACK, payload })]);
    }
  }

  #noteAnswer(headers: Uint8Array): void {
    if (headers[0] !== STATUS_200) {
      throw new Error("The API server refused a watch");
    }
    if (--this.#unanswered === 0) this.#answered.resolve();
  }

  /** Streams have as much window as there is; the connection gets what was used. */
  async #count(payload: Uint8Array): Promise<void> {
    this.bytes += payload.length;
    this.#granted += payload.length;
    let end = payload.indexOf(LINE_END);
    for (; end >= 0; end = payload.indexOf(LINE_END, end + 1)) this.events++;
    if (this.#granted < GRANT / 2) return;
    await this.#write([windowUpdate(this.#granted)]);
    this.#granted = 0;
  }

  async #write(parts: readonly Uint8Array[]): Promise<void> {
    const bytes = concatenate(parts);
    for (let at = 0; at < bytes.length;) {
      at += await this.#socket.write(bytes.subarray(at));
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.close();
  }
}

function windowUpdate(bytes: number): Uint8Array {
  const payload = encodeUint32(bytes);
  return encodeFrame(FrameType.WINDOW_UPDATE, { payload });
}
