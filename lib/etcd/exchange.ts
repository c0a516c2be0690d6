import { Buffer } from "node:buffer";
import { type ClientHttp2Session, connect, constants } from "node:http2";
import { Duplex } from "node:stream";
import { GrpcError, StatusCode } from "../grpc/mod.ts";

/** As much as etcd sends in one answer, by default. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const PREFIX_BYTES = 5;
const LINGER_MS = 50;

/** A unary call by gRPC. */
export interface Exchange {
  /** `https://host:port` */
  readonly authority: string;
  /** `/package.Service/Method` */
  readonly path: string;
  readonly message: Uint8Array;
  readonly metadata: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/**
 * Makes a unary call on a connection, by node:http2; the encoded answer. The
 * connection is closed when it ends.
 *
 * @throws {GrpcError} when the call fails, UNAVAILABLE when the server closes the connection
 * @throws {unknown} what the connection threw, where TLS fails after the handshake
 */
export async function exchange(
  connection: Deno.Conn,
  call: Exchange,
): Promise<Uint8Array> {
  const { promise: isEarly, reject } = Promise.withResolvers<never>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Deno 2.9.6's node:http2 does not say that a server closed the connection.
  const wire = new Wire(connection, () => {
    // What came before may be on its way to the stream.
    timer = setTimeout(() => reject(closedEarly()), LINGER_MS);
  });
  const session = connect(call.authority, { createConnection: () => wire });
  try {
    return await Promise.race([request(session, call), isEarly]);
  } catch (error) {
    throw wire.failure ?? error;
  } finally {
    clearTimeout(timer);
    session.destroy();
    wire.destroy();
  }
}

function request(
  session: ClientHttp2Session,
  { path, message, metadata, timeoutMs }: Exchange,
): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const fail = () => reject(closedEarly());
  session.once("error", fail);
  session.once("close", fail);
  const stream = session.request({
    ...metadata,
    [constants.HTTP2_HEADER_METHOD]: "POST",
    [constants.HTTP2_HEADER_PATH]: path,
    [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
    [constants.HTTP2_HEADER_TE]: "trailers",
    "grpc-timeout": `${timeoutMs}m`,
  });
  const answer = new Answer();
  const take = (fields: Readonly<Record<string, unknown>>) => {
    try {
      answer.takeHeaders(fields);
    } catch (error) {
      reject(error);
    }
  };
  stream.on("response", take);
  stream.on("trailers", take);
  stream.on("data", (bytes: Uint8Array) => {
    if (!answer.takeData(bytes)) {
      reject(failed("RESOURCE_EXHAUSTED", "The answer is too large"));
    }
  });
  stream.once("error", fail);
  stream.once("end", () => {
    const whole = answer.message;
    if (whole === undefined) fail();
    else resolve(whole);
  });
  stream.end(prefixed(message));
  return promise;
}

/** Puts an answer together. */
class Answer {
  readonly #chunks: Uint8Array[] = [];
  #length = 0;
  #isOk = false;

  /** The message, when it is whole and the call succeeded. */
  get message(): Uint8Array | undefined {
    if (!this.#isOk) return undefined;
    const bytes = Buffer.concat(this.#chunks);
    const isWhole = bytes.length >= PREFIX_BYTES && bytes[0] === 0 &&
      bytes.readUInt32BE(1) === bytes.length - PREFIX_BYTES;
    return isWhole ? bytes.subarray(PREFIX_BYTES) : undefined;
  }

  /** @throws {GrpcError} when they say that the call failed */
  takeHeaders(fields: Readonly<Record<string, unknown>>): void {
    const status = fields["grpc-status"];
    if (status === undefined) {
      const http = fields[constants.HTTP2_HEADER_STATUS];
      if (http === undefined || http === 200) return;
      throw failed("UNAVAILABLE", `HTTP status ${http}`);
    }
    const code = Number(status);
    if (code !== StatusCode.OK) {
      const text = String(fields["grpc-message"] ?? "");
      throw new GrpcError(decoded(text), { code });
    }
    this.#isOk = true;
  }

  /** False when the message is too large, which its first bytes say. */
  takeData(bytes: Uint8Array): boolean {
    this.#chunks.push(bytes);
    this.#length += bytes.length;
    if (this.#length - bytes.length >= PREFIX_BYTES) return true;
    const head = Buffer.concat(this.#chunks);
    return head.length < PREFIX_BYTES ||
      head.readUInt32BE(1) <= MAX_ANSWER_BYTES;
  }
}

/** A connection as node:http2 has it. */
class Wire extends Duplex {
  readonly #connection: Deno.Conn;
  readonly #onEnd: () => void;
  /** What the connection threw first. */
  failure: unknown;

  constructor(connection: Deno.Conn, onEnd: () => void) {
    super();
    this.#connection = connection;
    this.#onEnd = onEnd;
  }

  override _read(size: number): void {
    const buffer = new Uint8Array(size);
    this.#connection.read(buffer).then((count) => {
      if (count === null) this.#onEnd();
      this.push(count === null ? null : Buffer.from(buffer.buffer, 0, count));
    }, (error) => this.#fail(error));
  }

  override _write(
    bytes: Uint8Array,
    _encoding: string,
    done: (error?: Error | null) => void,
  ): void {
    this.#writeAll(bytes).then(() => done(), (error) => {
      this.#fail(error);
      done();
    });
  }

  override _destroy(
    _error: Error | null,
    done: (error?: Error | null) => void,
  ): void {
    this.#connection[Symbol.dispose]();
    done(null);
  }

  #fail(error: unknown): void {
    if (this.destroyed) return;
    // A peer that goes is a call that failed; what else there is concerns TLS.
    const isGone = error instanceof Deno.errors.BrokenPipe ||
      error instanceof Deno.errors.ConnectionReset;
    if (!isGone) this.failure ??= error;
    this.#onEnd();
    this.destroy();
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      rest = rest.subarray(await this.#connection.write(rest));
    }
  }
}

function prefixed(message: Uint8Array): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

/** Percent-encoded, of whatever peer. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function closedEarly(): GrpcError {
  return failed("UNAVAILABLE", "Connection closed before the answer");
}

function failed(code: keyof typeof StatusCode, message: string): GrpcError {
  return new GrpcError(message, { code: StatusCode[code] });
}
