import assert from "node:assert/strict";
import { untilAborted } from "../../async/mod.ts";
import { listen } from "./listen.ts";

Deno.test("listen() begins again after a failure, of the start or later", async () => {
  const stop = new AbortController();
  const said: string[] = [];
  let times = 0;
  await assert.rejects(
    listen({
      watch: () => {
        times++;
        if (times === 1) throw new Error("refused");
        let calls = 0;
        return {
          next: async ({ signal }) => {
            calls++;
            if (calls === 1) return [{ kind: "overflow" }];
            if (times === 2) throw new Error("broken");
            stop.abort();
            await untilAborted(signal);
            signal.throwIfAborted();
            return [];
          },
          [Symbol.asyncDispose]: () => {
            said.push("closed");
            return Promise.resolve();
          },
        };
      },
      onStart: () => said.push("start"),
      onHeard: (found) => said.push(...found.map(({ kind }) => kind)),
      onFailure: (error) => said.push((error as Error).message),
      signal: stop.signal,
      retryMs: { initialMs: 1, maxMs: 2 },
    }),
    { name: "AbortError" },
  );
  assert.deepEqual(said, [
    "refused",
    ...["start", "overflow", "closed", "broken"],
    ...["start", "overflow", "closed"],
  ]);
});
