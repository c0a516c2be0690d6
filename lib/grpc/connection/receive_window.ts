import { flowControlError } from "../base/frame_checks.ts";

/** Flow control of received data: RFC 9113, section 5.2. */
export class ReceiveWindow {
  readonly #size: number;
  #left: number;

  constructor(size: number) {
    this.#size = this.#left = size;
  }

  /**
   * Counts received bytes; returns how many to grant again, mostly none.
   *
   * @throws {Http2Error} when there are more than were granted
   */
  receive(bytes: number): number {
    this.#left -= bytes;
    if (this.#left < 0) throw flowControlError();
    if (this.#left > this.#size / 2) return 0;
    const grant = this.#size - this.#left;
    this.#left = this.#size;
    return grant;
  }
}
