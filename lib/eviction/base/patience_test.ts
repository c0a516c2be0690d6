import assert from "node:assert/strict";
import { KubeApiError, KubeUnreachableError } from "../../kube/mod.ts";
import { Patience } from "./patience.ts";

/** Makes a request that fails in these ways, and then answers. */
function failing(...errors: readonly Error[]): () => Promise<string> {
  const rest = [...errors];
  return () => {
    const error = rest.shift();
    return error === undefined ? Promise.resolve("ok") : Promise.reject(error);
  };
}

const away = new KubeUnreachableError("away");
const forbidden = new KubeApiError("forbidden", { status: 403 });

function patience(told: string[], timeoutMs = 60_000): Patience {
  const { signal } = new AbortController();
  return new Patience({
    timeoutMs,
    signal,
    pauseMs: 0,
    onTrouble: (message) => told.push(message),
  });
}

Deno.test("Patience waits for an API server, also for one that has just started and knows nobody", async () => {
  const told: string[] = [];
  const answer = await patience(told).ask(failing(away, forbidden));
  assert.equal(answer, "ok");
  assert.equal(told.length, 1);
});

Deno.test("Patience takes a refusal for an answer, and does not wait for ever", async () => {
  await assert.rejects(patience([]).ask(failing(forbidden)), forbidden);
  await assert.rejects(patience([], 0).ask(failing(away)), away);
});

Deno.test("Patience ends with its signal", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const waiting = new Patience({
    timeoutMs: 60_000,
    signal,
    pauseMs: 0,
    onTrouble: () => stop.abort(new Error("enough")),
  }).ask(failing(away, away, away));
  await assert.rejects(waiting, /enough/);
});
