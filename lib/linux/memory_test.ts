import assert from "node:assert/strict";
import { openLibc } from "./libc.ts";
import { heapCollector, trimHeap } from "./memory.ts";

openLibc();

Deno.test("trimHeap() answers whether there was something to give back", () => {
  assert.equal(typeof trimHeap(), "boolean");
  // Called twice in a row, the second time finds nothing new and does no harm.
  trimHeap();
});

Deno.test("heapCollector() collects what nobody refers to", () => {
  const collect = heapCollector();
  const heapBefore = Deno.memoryUsage().heapUsed;
  let ballast: number[][] | undefined = Array.from(
    { length: 2000 },
    () => Array.from({ length: 500 }, Math.random),
  );
  assert.ok(ballast.length > 0);
  ballast = undefined;
  collect();
  assert.ok(Deno.memoryUsage().heapUsed < heapBefore + 4_000_000);
});

Deno.test("heapCollector() works in several threads of a process at a time", async () => {
  // V8's flags are the process's: when one thread took the collector's flag
  // back, another one that was about to use it failed: "gc is not defined".
  const module = new URL("./memory.ts", import.meta.url).href;
  const source = `
    import { heapCollector } from "${module}";
    try {
      for (let i = 0; i < 300; i++) heapCollector();
      self.postMessage("well");
    } catch (error) {
      self.postMessage(String(error));
    }`;
  const url = `data:text/javascript,${encodeURIComponent(source)}`;
  const ends = Array.from({ length: 4 }, async () => {
    const worker = new Worker(url, { type: "module" });
    const said = Promise.withResolvers<unknown>();
    worker.onmessage = ({ data }) => said.resolve(data);
    worker.onerror = (event) => said.reject(new Error(event.message));
    try {
      return await said.promise;
    } finally {
      worker.terminate();
    }
  });
  assert.deepEqual(await Promise.all(ends), ["well", "well", "well", "well"]);
});
