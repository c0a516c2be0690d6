import { CONNECTION_PREFACE, Http2Error } from "../base/http2_frames.ts";

const PREFACE = new TextEncoder().encode(CONNECTION_PREFACE);

/** The connection preface of a client: RFC 9113, section 3.4. */
export class Preface {
  #seen = 0;

  /**
   * Returns what comes after it.
   *
   * @throws {Http2Error} when the peer sends something else
   */
  skip(bytes: Uint8Array): Uint8Array {
    let at = 0;
    while (at < bytes.length && this.#seen < PREFACE.length) {
      if (bytes[at++] !== PREFACE[this.#seen++]) {
        throw new Http2Error("it does not begin with the preface");
      }
    }
    return bytes.subarray(at);
  }
}
