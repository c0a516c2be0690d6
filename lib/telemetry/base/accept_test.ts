import assert from "node:assert/strict";
import { acceptAll } from "./accept.ts";
import { configureLogging } from "./log.ts";

Deno.test("acceptAll() outlives failures, makes room after each, and says once what is wrong", async () => {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  const stop = new AbortController();
  const outOfFiles = Object.assign(new Error("os error 24"), {
    code: "EMFILE",
  });
  const results = [outOfFiles, outOfFiles, "one"];
  let relieved = 0;
  const taken: string[] = [];
  const accept = () => {
    const result = results.shift();
    if (result === undefined) return Promise.reject(new Error("at the end"));
    if (typeof result === "string") return Promise.resolve(result);
    return Promise.reject(result);
  };
  await acceptAll<string>({ accept }, {
    address: ":1",
    signal: stop.signal,
    relieve: () => relieved++,
    take(connection) {
      taken.push(connection);
      stop.abort();
    },
  });
  assert.deepEqual(taken, ["one"]);
  assert.equal(relieved, 2);
  assert.equal(lines.length, 1);
  assert.match(
    lines[0] ?? "",
    /"level":"error".*no free file descriptor.*"address":":1"/,
  );
});

/** What acceptAll() does before it takes the connection that comes after so many failures. */
async function outlive(
  { code, failures }: { readonly code: string; readonly failures: number },
): Promise<{ lines: string[]; relieved: number; passedMs: number }> {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  const stop = new AbortController();
  let left = failures;
  let relieved = 0;
  const startMs = performance.now();
  await acceptAll<string>({
    accept() {
      if (left-- === 0) return Promise.resolve("one");
      return Promise.reject(Object.assign(new Error(code), { code }));
    },
  }, {
    address: ":1",
    signal: stop.signal,
    relieve: () => relieved++,
    take: () => stop.abort(),
  });
  return { lines, relieved, passedMs: performance.now() - startMs };
}

Deno.test("acceptAll() passes over connections that were reset, without a word or a pause", async () => {
  for (const code of ["ENOTCONN", "ECONNABORTED", "ECONNRESET", "EPROTO"]) {
    // With a pause after each this would take 100 s.
    const { lines, relieved, passedMs } = await outlive({
      code,
      failures: 1_000,
    });
    assert.deepEqual(lines, [], code);
    assert.equal(relieved, 0, code);
    assert.ok(passedMs < 20_000, `${code}: ${passedMs} ms`);
  }
});

Deno.test("acceptAll() makes room when memory runs out, too", async () => {
  for (const code of ["ENFILE", "ENOBUFS", "ENOMEM"]) {
    assert.equal((await outlive({ code, failures: 1 })).relieved, 1, code);
  }
});

Deno.test("acceptAll() pauses after an unknown failure, and closes nothing", async () => {
  const { lines, relieved, passedMs } = await outlive({
    code: "EINVAL",
    failures: 2,
  });
  assert.equal(relieved, 0);
  assert.match(lines[0] ?? "", /"level":"warn".*Cannot accept connections/);
  assert.ok(passedMs >= 150, `${passedMs} ms`);
});
