import assert from "node:assert/strict";
import { sleep } from "../async/mod.ts";
import { Rendering } from "./rendering.ts";

function setUp() {
  const started: PromiseWithResolvers<string>[] = [];
  const stop = new AbortController();
  const rendering = new Rendering(() => {
    const one = Promise.withResolvers<string>();
    started.push(one);
    return one.promise;
  }, stop.signal);
  const turn = () => sleep(0);
  const read = async (): Promise<string> => {
    return new TextDecoder().decode((await rendering.get()).plain);
  };
  return { read, rendering, started, turn };
}

Deno.test("Rendering serves all who wait by one rendering, begun after each has asked", async () => {
  const { read, started, turn } = setUp();
  const first = read();
  await turn();
  assert.equal(started.length, 1);
  const others = [read(), read(), read()];
  await turn();
  assert.equal(started.length, 1, "one at a time");
  started[0]?.resolve("a");
  assert.equal(await first, "a");
  while (started.length < 2) await turn();
  started[1]?.resolve("b");
  assert.deepEqual(await Promise.all(others), ["b", "b", "b"]);
  assert.equal(started.length, 2);
});

Deno.test("Rendering fails for those who asked, and not for the next", async () => {
  const { read, started, turn } = setUp();
  const first = read();
  await turn();
  const second = read();
  started[0]?.reject(new Error("no"));
  await assert.rejects(first, /no/);
  while (started.length < 2) await turn();
  started[1]?.resolve("yes");
  assert.equal(await second, "yes");
});

Deno.test("Rendering rests longer than it works", async () => {
  const { read, started, turn } = setUp();
  const first = read();
  await turn();
  await sleep(30);
  started[0]?.resolve("a");
  await first;
  const endMs = performance.now();
  const second = read();
  while (started.length < 2) await turn();
  assert.ok(performance.now() - endMs >= 9 * 25);
  started[1]?.resolve("b");
  await second;
});

Deno.test("Rendering compresses a text once", async () => {
  const { rendering, started, turn } = setUp();
  const getting = rendering.get();
  await turn();
  started[0]?.resolve("x".repeat(10_000));
  const { gzip } = await getting;
  const [one, other] = await Promise.all([gzip(), gzip()]);
  assert.equal(one, other);
  const stream = new Blob([one]).stream()
    .pipeThrough(new DecompressionStream("gzip"));
  assert.equal((await new Response(stream).text()).length, 10_000);
});
