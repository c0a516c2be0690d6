import assert from "node:assert/strict";
import { untilAborted } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { PodAnnouncement } from "./announcement.ts";
import type { Addressed } from "./attachment.ts";

const POD: Addressed = {
  pod: { namespace: "default", name: "pod" },
  uid: "1",
  addresses: { ipv4: Address.parse("10.1.2.3") },
};

Deno.test("PodAnnouncement begins once, and is done when all have answered", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const told: Addressed[] = [];
  await using announcement = new PodAnnouncement(
    new AbortController().signal,
    (pod) => {
      told.push(pod);
      return promise;
    },
  );
  announcement.start(POD);
  announcement.start(POD);
  assert.deepEqual(told, [POD]);
  let isDone = false;
  const done = announcement.done().then(() => isDone = true);
  await Promise.resolve();
  assert.equal(isDone, false);
  resolve();
  await done;
});

Deno.test("disposing of a PodAnnouncement ends what is under way, and waits for that", async () => {
  const events: string[] = [];
  {
    await using announcement = new PodAnnouncement(
      new AbortController().signal,
      async (_, { signal }) => {
        await untilAborted(signal);
        events.push("ended");
      },
    );
    announcement.start(POD);
  }
  assert.deepEqual(events, ["ended"]);
});

Deno.test("PodAnnouncement ends with its call", async () => {
  const call = new AbortController();
  let isAborted = false;
  await using announcement = new PodAnnouncement(
    call.signal,
    (_, { signal }) => {
      call.abort();
      isAborted = signal.aborted;
      return Promise.resolve();
    },
  );
  announcement.start(POD);
  await announcement.done();
  assert.equal(isAborted, true);
});
