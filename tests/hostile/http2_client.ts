// As much of HTTP/2 as a flood needs, RFC 9113: grpc-js would not make one.
import { concatenate } from "../../lib/bytes/mod.ts";

/** Types of frames. */
export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  RST_STREAM: 3,
  SETTINGS: 4,
  PING: 6,
  GOAWAY: 7,
} as const;

const END_STREAM = 1;
const END_HEADERS = 4;
const HEAD_BYTES = 9;

const encoder = new TextEncoder();

/** Of a frame. */
export interface FrameFields {
  readonly streamId?: number;
  readonly flags?: number;
  readonly payload?: Uint8Array;
}

/** A frame. */
export function frame(
  type: number,
  { streamId = 0, flags = 0, payload = new Uint8Array() }: FrameFields = {},
): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, payload.length << 8);
  view.setUint8(3, type);
  view.setUint8(4, flags);
  view.setUint32(5, streamId);
  bytes.set(payload, HEAD_BYTES);
  return bytes;
}

/** What a client sends first. */
export const OPENING: Uint8Array = concatenate([
  encoder.encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(FrameType.SETTINGS),
]);

/** The HEADERS of a call by gRPC. */
export function headers(streamId: number, path: string): Uint8Array {
  const payload = concatenate([
    field(":method", "POST"),
    field(":scheme", "http"),
    field(":authority", "localhost"),
    field(":path", path),
    field("content-type", "application/grpc"),
    field("te", "trailers"),
  ]);
  return frame(FrameType.HEADERS, { streamId, flags: END_HEADERS, payload });
}

/** The DATA of a call with this message, and its end. */
export function data(streamId: number, message: Uint8Array): Uint8Array {
  const payload = concatenate([messageHead(message.length), message]);
  return frame(FrameType.DATA, { streamId, flags: END_STREAM, payload });
}

/** What comes before a message: it is not compressed, and so long. */
export function messageHead(length: number): Uint8Array {
  const bytes = new Uint8Array(5);
  new DataView(bytes.buffer).setUint32(1, length);
  return bytes;
}

/** RST_STREAM with CANCEL. */
export function reset(streamId: number): Uint8Array {
  const payload = Uint8Array.of(0, 0, 0, 8);
  return frame(FrameType.RST_STREAM, { streamId, payload });
}

/** A header field as a literal without indexing, RFC 7541, section 6.2.2; both are short. */
function field(name: string, value: string): Uint8Array {
  const [n, v] = [encoder.encode(name), encoder.encode(value)];
  return concatenate([
    Uint8Array.of(0, n.length),
    n,
    Uint8Array.of(v.length),
    v,
  ]);
}

/** Puts frames together from the bytes of a connection. */
export class FrameReader {
  #rest: Uint8Array = new Uint8Array();

  /** The frames that these bytes complete. */
  push(bytes: Uint8Array): { type: number; payload: Uint8Array }[] {
    this.#rest = concatenate([this.#rest, bytes]);
    const frames = [];
    while (this.#rest.length >= HEAD_BYTES) {
      const view = new DataView(this.#rest.buffer, this.#rest.byteOffset);
      const end = HEAD_BYTES + (view.getUint32(0) >>> 8);
      if (this.#rest.length < end) break;
      const payload = this.#rest.slice(HEAD_BYTES, end);
      frames.push({ type: view.getUint8(3), payload });
      this.#rest = this.#rest.subarray(end);
    }
    return frames;
  }
}
