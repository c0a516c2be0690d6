import { concatenate } from "../../bytes/mod.ts";
import type { ListEnvelope } from "../http/options.ts";

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [BRACE_OPEN, BRACE_CLOSE] = [0x7b, 0x7d];
const [BRACKET_OPEN, BRACKET_CLOSE] = [0x5b, 0x5d];

/** Depth of the elements of a list's `items`: inside the list's object and inside the array. */
const ITEM_DEPTH = 2;

/**
 * Reads a list's JSON item by item, so that never more than one item and one chunk are held, of a list of any size.
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
    if (this.#inItem) this.#item.push(chunk.slice(start));
    else this.#keepOutside(chunk, { start, end: chunk.length });
  }

  /** Copies: the chunk is gone with its turn. */
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

  /**
   * Index of the string's last byte in the chunk. Most of a list is in strings, and `indexOf` goes through them many
   * times faster than the interpreter, in which daemons run.
   */
  #skipString(chunk: Uint8Array, from: number): number {
    let start = this.#escaped ? from + 1 : from;
    this.#escaped = false;
    for (
      let quote = chunk.indexOf(QUOTE, start);
      quote !== -1;
      quote = chunk.indexOf(QUOTE, start)
    ) {
      if (!isEscaped(chunk, { start, end: quote })) {
        this.#inString = false;
        return quote;
      }
      start = quote + 1;
    }
    this.#escaped = isEscaped(chunk, { start, end: chunk.length });
    return chunk.length;
  }
}

/** Whether the byte at `end` is escaped by those before it, none of which has a meaning before `start`. */
function isEscaped(
  chunk: Uint8Array,
  { start, end }: { readonly start: number; readonly end: number },
): boolean {
  let at = end;
  while (at > start && chunk[at - 1] === BACKSLASH) at--;
  return (end - at) % 2 === 1;
}

function decodeAll(
  decoder: TextDecoder,
  pieces: readonly Uint8Array[],
): string {
  const [only] = pieces;
  return decoder.decode(
    only !== undefined && pieces.length === 1 ? only : concatenate(pieces),
  );
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
