import { concatenate } from "../../bytes/mod.ts";
const NEWLINE = 0x0a;

/**
 * Splits a stream of bytes into lines, without their ends; empty lines are left out and a last line without an end
 * counts. Chunks may end anywhere, also inside a character, and need not outlive their turn.
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  // Pieces of an unfinished line, joined once: a big object comes in many chunks.
  let pieces: Uint8Array[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      if (end < 0) break;
      const last = chunk.subarray(start, end);
      const line = pieces.length === 0 ? last : concatenate([...pieces, last]);
      pieces = [];
      start = end + 1;
      if (line.length > 0) yield decoder.decode(line);
    }
    if (start < chunk.length) pieces.push(chunk.slice(start));
  }
  if (pieces.length > 0) yield decoder.decode(concatenate(pieces));
}
