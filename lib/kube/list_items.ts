const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [BRACE_OPEN, BRACE_CLOSE] = [0x7b, 0x7d];
const [BRACKET_OPEN, BRACKET_CLOSE] = [0x5b, 0x5d];

/** Depth of the elements of a list's `items`: inside the list's object and inside the array. */
const ITEM_DEPTH = 2;

/** A list without its items. */
export interface ListEnvelope {
  readonly resourceVersion: string;
  /** Present when there is another page. */
  readonly continue?: string;
}

/**
 * Reads a list's JSON item by item, so that never more than one item and one chunk are held, whatever the list's size.
 * @throws {SyntaxError} when the body is not a whole JSON object.
 */
export async function readListItems<T>(
  chunks: AsyncIterable<Uint8Array>,
  onItem: (item: T) => void,
): Promise<ListEnvelope> {
  const scanner = new ItemScanner((text) => onItem(parseItem<T>(text)));
  for await (const chunk of chunks) scanner.push(chunk);
  return parseEnvelope(scanner.rest());
}

/**
 * Finds the elements of the one top-level array of objects. JSON's structural characters are ASCII, and UTF-8 has no
 * ASCII byte inside a longer character, so bytes are enough (RFC 3629, section 3).
 */
class ItemScanner {
  readonly #onItem: (text: string) => void;
  readonly #decoder = new TextDecoder();
  #depth = 0;
  #inString = false;
  #inArray = false;
  #escaped = false;
  /** Pieces of the current item. */
  #item: Uint8Array[] = [];
  #inItem = false;
  /** What is not in an item. */
  readonly #outside: Uint8Array[] = [];

  constructor(onItem: (text: string) => void) {
    this.#onItem = onItem;
  }

  push(chunk: Uint8Array): void {
    let start = 0;
    for (let i = 0; i < chunk.length; i++) {
      if (this.#inString) {
        i = this.#skipString(chunk, i);
        continue;
      }
      const byte = chunk[i];
      if (byte === QUOTE) {
        this.#inString = true;
      } else if (byte === BRACE_OPEN || byte === BRACKET_OPEN) {
        if (this.#depth === 1) this.#inArray = byte === BRACKET_OPEN;
        if (this.#depth === ITEM_DEPTH && this.#inArray) {
          this.#keepOutside(chunk, { start, end: i });
          start = i;
          this.#inItem = true;
        }
        this.#depth++;
      } else if (byte === BRACE_CLOSE || byte === BRACKET_CLOSE) {
        this.#depth--;
        if (this.#depth === ITEM_DEPTH && this.#inItem) {
          this.#item.push(chunk.subarray(start, i + 1));
          start = i + 1;
          this.#finishItem();
        }
      } else if (
        byte === COMMA && this.#depth === ITEM_DEPTH && this.#inArray
      ) {
        // Between two items: neither's, and the rest must stay JSON.
        this.#keepOutside(chunk, { start, end: i });
        start = i + 1;
      }
    }
    if (this.#inItem) this.#item.push(chunk.subarray(start));
    else this.#keepOutside(chunk, { start, end: chunk.length });
  }

  /** Copies, since a view would keep the whole chunk in memory to the end of the list. */
  #keepOutside(chunk: Uint8Array, part: { start: number; end: number }): void {
    if (part.start === part.end) return;
    this.#outside.push(chunk.slice(part.start, part.end));
  }

  /** The list without its items. */
  rest(): string {
    return decodeAll(this.#decoder, this.#outside);
  }

  #finishItem(): void {
    const text = decodeAll(this.#decoder, this.#item);
    this.#item = [];
    this.#inItem = false;
    this.#onItem(text);
  }

  /** Index of the string's last byte in the chunk. */
  #skipString(chunk: Uint8Array, from: number): number {
    for (let i = from; i < chunk.length; i++) {
      const byte = chunk[i];
      if (this.#escaped) this.#escaped = false;
      else if (byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) {
        this.#inString = false;
        return i;
      }
    }
    return chunk.length;
  }
}

function decodeAll(
  decoder: TextDecoder,
  pieces: readonly Uint8Array[],
): string {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return decoder.decode(only);
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const whole = new Uint8Array(length);
  let offset = 0;
  for (const piece of pieces) {
    whole.set(piece, offset);
    offset += piece.length;
  }
  return decoder.decode(whole);
}

function parseItem<T>(text: string): T {
  return JSON.parse(text) as T;
}

function parseEnvelope(text: string): ListEnvelope {
  const list = JSON.parse(text) as {
    metadata?: { resourceVersion?: string; continue?: string };
  };
  const { resourceVersion = "", continue: next } = list.metadata ?? {};
  return next === undefined || next === ""
    ? { resourceVersion }
    : { resourceVersion, continue: next };
}
