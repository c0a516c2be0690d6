import { align, ATTRIBUTE_HEADER_SIZE, NLA_TYPE_MASK } from "./constants.ts";

/** Goes through attributes without making an object for each: a table may have 100,000 entries of 30. */
export class AttributeCursor {
  /** The type of the attribute. */
  type = 0;
  /** Where its value begins. */
  at = 0;
  /** How long its value is. */
  size = 0;
  readonly #view: DataView;
  #next: number;
  readonly #end: number;

  /** The attributes from one offset to another. */
  constructor(view: DataView, start: number, end: number) {
    this.#view = view;
    this.#next = start;
    this.#end = end;
  }

  /** Moves on to the next attribute; false at the end. @throws {SyntaxError} when it is malformed */
  next(): boolean {
    const left = this.#end - this.#next;
    if (left < ATTRIBUTE_HEADER_SIZE) return false;
    const length = this.#view.getUint16(this.#next, true);
    if (length < ATTRIBUTE_HEADER_SIZE || length > left) {
      throw new SyntaxError(
        `Cannot parse netlink attribute: length is ${length}, ${left} bytes are left`,
      );
    }
    this.type = this.#view.getUint16(this.#next + 2, true) & NLA_TYPE_MASK;
    this.at = this.#next + ATTRIBUTE_HEADER_SIZE;
    this.size = length - ATTRIBUTE_HEADER_SIZE;
    this.#next += align(length);
    return true;
  }

  /** The attributes inside this one. */
  inner(): AttributeCursor {
    return new AttributeCursor(this.#view, this.at, this.at + this.size);
  }

  /** The value as a number of that many bytes, big-endian. */
  number(size: 1 | 2 | 4): number {
    if (this.size !== size) {
      throw new SyntaxError(
        `Cannot parse netlink attribute ${this.type}: it has ${this.size} bytes, not ${size}`,
      );
    }
    if (size === 1) return this.#view.getUint8(this.at);
    return size === 2
      ? this.#view.getUint16(this.at)
      : this.#view.getUint32(this.at);
  }
}
