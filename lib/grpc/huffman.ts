import { HUFFMAN_LENGTHS } from "./hpack_tables.ts";

const EOS = 256;
const MAX_LENGTH = 30;

/** For each code length: its first code, and where its symbols start. */
interface Table {
  readonly symbols: readonly number[];
  readonly firstCode: readonly number[];
  readonly firstSymbol: readonly number[];
}

let table: Table | undefined;

function buildTable(): Table {
  const lengths = [...HUFFMAN_LENGTHS].map((digit) => parseInt(digit, 36));
  const symbols: number[] = [];
  const firstCode: number[] = [];
  const firstSymbol: number[] = [];
  let code = 0;
  for (let length = 0; length <= MAX_LENGTH; length++) {
    code *= 2;
    firstCode.push(code);
    firstSymbol.push(symbols.length);
    lengths.forEach((l, symbol) => {
      if (l === length) symbols.push(symbol);
    });
    code += symbols.length - (firstSymbol[length] ?? 0);
  }
  firstSymbol.push(symbols.length);
  return { symbols, firstCode, firstSymbol };
}

/**
 * Decodes a Huffman-coded string. RFC 7541, section 5.2.
 *
 * @throws {SyntaxError} when it holds EOS or its padding is not ones, < 8 bits
 */
export function decodeHuffman(bytes: Uint8Array): Uint8Array {
  const { symbols, firstCode, firstSymbol } = table ??= buildTable();
  const out: number[] = [];
  let [code, length] = [0, 0];
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + (byte >> bit & 1);
      length++;
      const index = code - (firstCode[length] ?? 0) +
        (firstSymbol[length] ?? 0);
      // Codes of this length end where the symbols of the next one start.
      if (index >= (firstSymbol[length + 1] ?? 0)) continue;
      const symbol = symbols[index];
      if (symbol === undefined || symbol === EOS) throw malformed("EOS in it");
      out.push(symbol);
      [code, length] = [0, 0];
    }
  }
  if (length > 7 || code !== 2 ** length - 1) throw malformed("bad padding");
  return Uint8Array.from(out);
}

function malformed(what: string): SyntaxError {
  return new SyntaxError(`Cannot decode Huffman string: ${what}`);
}
