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
