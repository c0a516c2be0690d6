import { concatenate } from "../../bytes/mod.ts";
// HTTP/2 framing: RFC 9113, sections 4 and 6.

/** RFC 9113, section 6. */
export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const;

/** RFC 9113, section 6: flags, by frame type. */
export const Flag = {
  /** SETTINGS, PING */
  ACK: 0x1,
  /** DATA, HEADERS */
  END_STREAM: 0x1,
  /** HEADERS, CONTINUATION */
  END_HEADERS: 0x4,
  /** DATA, HEADERS */
  PADDED: 0x8,
  /** HEADERS */
  PRIORITY: 0x20,
} as const;

/** RFC 9113, section 6.5.2. */
export const Setting = {
  HEADER_TABLE_SIZE: 1,
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const;

/** RFC 9113, section 7. */
export const ErrorCode = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  FLOW_CONTROL_ERROR: 3,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  ENHANCE_YOUR_CALM: 11,
} as const;

/** RFC 9113, section 3.4: what a client sends first. */
export const CONNECTION_PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/** The payload a frame may have unless SETTINGS say otherwise. */
export const DEFAULT_MAX_FRAME_SIZE = 16384;

/** The window of a connection and of a stream unless SETTINGS say otherwise. */
export const DEFAULT_WINDOW = 65535;

/** The largest window: RFC 9113, section 6.9.1. */
export const MAX_WINDOW = 0x7fffffff;

const HEADER_SIZE = 9;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Uint8Array;
}

/** A peer that breaks the protocol. */
export class Http2Error extends Error {
  override readonly name = "Http2Error";
  /** Sent to the peer: one of {@linkcode ErrorCode}. */
  readonly code: number;

  constructor(message: string, code: number = ErrorCode.PROTOCOL_ERROR) {
    super(message);
    this.code = code;
  }
}

export function encodeFrame(
  type: number,
  options: {
    readonly flags?: number;
    readonly streamId?: number;
    readonly payload?: Uint8Array;
  },
): Uint8Array {
  const { flags = 0, streamId = 0, payload = new Uint8Array() } = options;
  const bytes = new Uint8Array(HEADER_SIZE + payload.length);
  const { length } = payload;
  bytes.set([length >> 16, length >> 8 & 0xff, length & 0xff, type, flags]);
  new DataView(bytes.buffer).setUint32(5, streamId);
  bytes.set(payload, HEADER_SIZE);
  return bytes;
}

/** Encodes the payload of a SETTINGS frame. */
export function encodeSettings(
  settings: readonly (readonly [identifier: number, value: number])[],
): Uint8Array {
  const view = new DataView(new ArrayBuffer(6 * settings.length));
  settings.forEach(([identifier, value], i) => {
    view.setUint16(6 * i, identifier);
    view.setUint32(6 * i + 2, value);
  });
  return new Uint8Array(view.buffer);
}

/** Decodes the payload of a SETTINGS frame. */
export function decodeSettings(payload: Uint8Array): [number, number][] {
  if (payload.length % 6 !== 0) {
    throw new Http2Error("SETTINGS of a bad size", ErrorCode.FRAME_SIZE_ERROR);
  }
  const settings: [number, number][] = [];
  for (let at = 0; at < payload.length; at += 6) {
    settings.push([
      readUint32(payload, at) >>> 16,
      readUint32(payload, at + 2),
    ]);
  }
  return settings;
}

/** Reads a big-endian number of four bytes. */
export function readUint32(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(at);
}

/** Encodes a number of four bytes, big-endian. */
export function encodeUint32(value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, value);
  return new Uint8Array(view.buffer);
}

/**
 * The payload of a DATA or HEADERS frame without its padding and priority.
 *
 * @throws {Http2Error} when they are larger than the frame
 */
export function stripPadding({ type, flags, payload }: Frame): Uint8Array {
  const isPadded = (flags & Flag.PADDED) !== 0;
  const hasPriority = type === FrameType.HEADERS &&
    (flags & Flag.PRIORITY) !== 0;
  const padding = isPadded ? payload[0] ?? 0 : 0;
  const start = (isPadded ? 1 : 0) + (hasPriority ? 5 : 0);
  const end = payload.length - padding;
  if (start > end) throw new Http2Error("padding larger than its frame");
  return payload.subarray(start, end);
}

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  #pending = new Uint8Array();

  /**
   * Takes the next bytes and returns the frames that they complete.
   *
   * @throws {Http2Error} when a frame is larger than allowed
   */
  push(bytes: Uint8Array): Frame[] {
    return [...this.frames(bytes)];
  }

  /** The same, one by one: those before a bad frame come before the error. */
  *frames(bytes: Uint8Array): Generator<Frame> {
    let rest = this.#pending.length === 0
      ? bytes
      : concatenate([this.#pending, bytes]);
    try {
      while (rest.length >= HEADER_SIZE) {
        const length = readUint32(rest, 0) >>> 8;
        if (length > DEFAULT_MAX_FRAME_SIZE) {
          throw new Http2Error(
            `frame of ${length} bytes: is this HTTP/2?`,
            ErrorCode.FRAME_SIZE_ERROR,
          );
        }
        const end = HEADER_SIZE + length;
        if (rest.length < end) break;
        const frame = {
          type: rest[3] ?? 0,
          flags: rest[4] ?? 0,
          streamId: readUint32(rest, 5) & 0x7fffffff,
          payload: rest.slice(HEADER_SIZE, end),
        };
        rest = rest.subarray(end);
        yield frame;
      }
    } finally {
      this.#pending = rest.slice();
    }
  }
}
