import { HUFFMAN_COUNTS, HUFFMAN_SYMBOLS } from "./hpack_tables.ts";

const EOS = 256;

/**
 * Decodes a Huffman-coded string. RFC 7541, section 5.2.
 *
 * Codes of one length are consecutive numbers, so that a code is known by its
 * distance from the first one of its length: no tree, no table to build, since
 * the caller may be a process that decodes three strings and ends.
 *
 * @throws {SyntaxError} when it holds EOS or its padding is not ones, < 8 bits
 */
export function decodeHuffman(bytes: Uint8Array): Uint8Array {
  const out: number[] = [];
  let code = 0;
  let length = 0;
  let firstCode = 0;
  let firstSymbol = 0;
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + (byte >> bit & 1);
      length++;
      firstCode *= 2;
      const count = HUFFMAN_COUNTS[length];
      if (count === undefined) throw malformed("code too long");
      if (code - firstCode >= count) {
        firstCode += count;
        firstSymbol += count;
        continue;
      }
      const symbol = HUFFMAN_SYMBOLS[firstSymbol + code - firstCode];
      if (symbol === undefined || symbol === EOS) throw malformed("EOS in it");
      out.push(symbol);
      code =
        length =
        firstCode =
        firstSymbol =
          0;
    }
  }
  if (length > 7 || code !== 2 ** length - 1) throw malformed("bad padding");
  return Uint8Array.from(out);
}

function malformed(what: string): SyntaxError {
  return new SyntaxError(`Cannot decode Huffman string: ${what}`);
}
