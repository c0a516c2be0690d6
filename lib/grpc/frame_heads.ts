/** Types of HTTP/2 frames that this room looks at: RFC 9113, section 6. */
export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  RST_STREAM: 3,
  SETTINGS: 4,
  PING: 6,
  GOAWAY: 7,
} as const;

const END_STREAM = 1;
const HEAD_BYTES = 9;

/** What the first nine bytes of a frame say. */
export interface FrameHead {
  /** Of what follows. */
  readonly length: number;
  readonly type: number;
  readonly streamId: number;
  /** Nothing more comes from this side of the stream; of DATA and HEADERS. */
  readonly endsStream: boolean;
}

/** Reads the heads of the frames in a stream of bytes, which may be cut anywhere, and passes over the rest. */
export class FrameHeads {
  readonly #head = new Uint8Array(HEAD_BYTES);
  #headLength = 0;
  #toSkip: number;

  /** `skip` is how many bytes come before the first frame. */
  constructor(skip: number = 0) {
    this.#toSkip = skip;
  }

  /** The heads that end within these bytes. */
  push(bytes: Uint8Array): FrameHead[] {
    const heads: FrameHead[] = [];
    for (let at = 0; at < bytes.length;) {
      if (this.#toSkip > 0) {
        const skipped = Math.min(this.#toSkip, bytes.length - at);
        this.#toSkip -= skipped;
        at += skipped;
        continue;
      }
      const part = bytes.subarray(at, at + HEAD_BYTES - this.#headLength);
      this.#head.set(part, this.#headLength);
      this.#headLength += part.length;
      at += part.length;
      if (this.#headLength < HEAD_BYTES) break;
      const head = decodeHead(this.#head);
      heads.push(head);
      this.#toSkip = head.length;
      this.#headLength = 0;
    }
    return heads;
  }
}

function decodeHead(bytes: Uint8Array): FrameHead {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const type = view.getUint8(3);
  const canEnd = type === FrameType.DATA || type === FrameType.HEADERS;
  return {
    length: view.getUint32(0) >>> 8,
    type,
    streamId: view.getUint32(5) & 0x7fffffff,
    endsStream: canEnd && (view.getUint8(4) & END_STREAM) !== 0,
  };
}

/** A GOAWAY that asks the peer to calm down: RFC 9113, sections 6.8 and 7. */
export function encodeEnhanceYourCalm(): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + 8);
  const view = new DataView(bytes.buffer);
  view.setUint8(2, 8);
  view.setUint8(3, FrameType.GOAWAY);
  view.setUint32(HEAD_BYTES + 4, 11);
  return bytes;
}
