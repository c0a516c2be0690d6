import assert from "node:assert/strict";
import { untilStopped } from "./testing.ts";

Deno.test("untilStopped() throws the error of what ends before the signal, and takes what ends by it", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const broken = () => Promise.reject(new Error("broken"));
  await assert.rejects(untilStopped(broken(), signal), /broken/);
  await untilStopped(Promise.resolve(), signal);
  stop.abort();
  await untilStopped(broken(), signal);
});
