import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { Telling } from "./telling.ts";
import type { Addressed } from "./attachment.ts";

const POD: Addressed = {
  pod: { namespace: "default", name: "pod" },
  uid: "1",
  addresses: { ipv4: Address.parse("10.1.2.3") },
};

Deno.test("Telling begins once, and is done when all have answered", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const told: Addressed[] = [];
  await using telling = new Telling(new AbortController().signal, (pod) => {
    told.push(pod);
    return promise;
  });
  telling.start(POD);
  telling.start(POD);
  assert.deepEqual(told, [POD]);
  let isDone = false;
  const done = telling.done().then(() => isDone = true);
  await Promise.resolve();
  assert.equal(isDone, false);
  resolve();
  await done;
});

Deno.test("disposing of a Telling ends what is under way, and waits for that", async () => {
  const events: string[] = [];
  {
    await using telling = new Telling(
      new AbortController().signal,
      async (_, { signal }) => {
        await new Promise((resolve) =>
          signal.addEventListener("abort", resolve)
        );
        events.push("ended");
      },
    );
    telling.start(POD);
  }
  assert.deepEqual(events, ["ended"]);
});

Deno.test("Telling ends with its call", async () => {
  const call = new AbortController();
  let isAborted = false;
  await using telling = new Telling(call.signal, (_, { signal }) => {
    call.abort();
    isAborted = signal.aborted;
    return Promise.resolve();
  });
  telling.start(POD);
  await telling.done();
  assert.equal(isAborted, true);
});
