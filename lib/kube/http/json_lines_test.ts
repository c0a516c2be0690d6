import assert from "node:assert/strict";
import fc from "fast-check";
import { splitLines } from "./json_lines.ts";

/** Chunks that are gone with their turn, as those of a transport. */
async function* pieces(bytes: Uint8Array, cuts: readonly number[]) {
  let start = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    const end = Math.min(cut, bytes.length);
    if (end > start) yield* brief(bytes.slice(start, end));
    start = Math.max(start, end);
  }
  yield* brief(bytes.slice(start));
}

function* brief(chunk: Uint8Array) {
  yield chunk;
  chunk.fill(0);
}

Deno.test("splitLines() gives the same lines wherever the chunks end", async () => {
  const line = fc.string({ unit: "binary" }).map((s) => s.replace(/\n/g, ""));
  const lines = fc.array(line.filter((s) => s !== "" && s.isWellFormed()));
  await fc.assert(
    fc.asyncProperty(lines, fc.array(fc.nat(200)), async (expected, cuts) => {
      const text = expected.map((l) => `${l}\n`).join("");
      const bytes = new TextEncoder().encode(text);
      const found = await Array.fromAsync(splitLines(pieces(bytes, cuts)));
      assert.deepEqual(found, expected);
    }),
  );
});

Deno.test("splitLines() keeps a last line without an end", async () => {
  const bytes = new TextEncoder().encode("a\n\nb");
  const found = await Array.fromAsync(splitLines(pieces(bytes, [1])));
  assert.deepEqual(found, ["a", "b"]);
});
