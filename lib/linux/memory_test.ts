import assert from "node:assert/strict";
import { openLibc } from "./libc.ts";
import {
  cleanMappings,
  filePagesReleaser,
  heapCollector,
  trimHeap,
} from "./memory.ts";

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

const SMAPS =
  `00400000-00410000 r-xp 00000000 fe:00 12                /bin/coil x
Rss:                  64 kB
Anonymous:             0 kB
00410000-00420000 r--p 00010000 fe:00 12                               /bin/coil x
Rss:                  64 kB
Anonymous:             4 kB
00420000-00430000 rw-p 00020000 fe:00 12                               /bin/coil x
Anonymous:             0 kB
00430000-00438000 r--p 00030000 fe:00 12                               /bin/coil x
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 13                       /lib/libc.so.6
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0
Anonymous:             0 kB
`;

Deno.test("cleanMappings() are those of the file that nothing has been written to", () => {
  assert.deepEqual(cleanMappings(SMAPS, "/bin/coil x"), [
    [0x400000n, 0x10000n],
    [0x430000n, 0x8000n],
  ]);
  assert.deepEqual(cleanMappings("", "/bin/coil"), []);
});

/** Pages of files that this process has in memory, in kB. */
function fileKb(): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(/^RssFile:\s+(\d+) kB/m.exec(status)?.[1]);
}

Deno.test("filePagesReleaser() gives back pages of the executable, which goes on", () => {
  const release = filePagesReleaser();
  const before = fileKb();
  release();
  const after = fileKb();
  assert.ok(after < before / 2, `${before} kB before, ${after} kB after`);
  release();
  assert.equal(JSON.parse(JSON.stringify({ a: [1] })).a[0], 1);
});
