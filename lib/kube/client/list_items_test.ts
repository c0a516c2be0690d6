import assert from "node:assert/strict";
import fc from "fast-check";
import { readListItems } from "./list_items.ts";

/** All in one buffer, as those of a transport. */
async function* chunksOf(text: string, size: number) {
  const bytes = new TextEncoder().encode(text);
  for (let i = 0; i < bytes.length; i += size) {
    const chunk = bytes.slice(i, i + size);
    yield chunk;
    chunk.fill(0);
  }
}

async function read(text: string, size: number) {
  const items: unknown[] = [];
  const envelope = await readListItems(
    chunksOf(text, size),
    (item) => items.push(item),
  );
  return { items, envelope };
}

Deno.test("readListItems() reads what JSON.parse reads, wherever the chunks end", async () => {
  const item = fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue());
  await fc.assert(
    fc.asyncProperty(
      fc.array(item),
      fc.integer({ min: 1, max: 50 }),
      fc.boolean(),
      async (items, size, isPretty) => {
        const list = {
          kind: "PodList",
          metadata: { resourceVersion: "7", continue: 'a{["b' },
          items,
        };
        const text = JSON.stringify(list, undefined, isPretty ? 2 : 0);
        const expected = JSON.parse(text).items;
        const found = await read(text, size);
        assert.deepEqual(found.items, expected);
        const { resourceVersion, continue: next } = list.metadata;
        assert.deepEqual(found.envelope, { resourceVersion, continue: next });
      },
    ),
  );
});

Deno.test("readListItems() reads an empty list and one that is null", async () => {
  for (const items of ["[]", "null"]) {
    const text = `{"metadata":{"resourceVersion":"1"},"items":${items}}`;
    const envelope = { resourceVersion: "1" };
    assert.deepEqual(await read(text, 7), { items: [], envelope });
  }
});

Deno.test("readListItems() rejects half a list", async () => {
  const text = '{"metadata":{"resourceVersion":"1"},"items":[{"a":1},{"b"';
  await assert.rejects(read(text, 10), SyntaxError);
});
