import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import type { Attachment } from "../calls/attachment.ts";
import { AttachmentBook } from "../calls/attachment_book.ts";
import { EgressInspector } from "./inspector.ts";

function attachmentOf(name: string): Attachment {
  const key = { containerId: name, ifname: "eth0" };
  return {
    key,
    pod: { namespace: "team", name },
    addresses: {},
    openNetns: () => Promise.resolve(undefined),
  };
}

Deno.test("EgressInspector sends to the reconciler what is damaged or new, and leaves alone what others work on", async () => {
  const book = new AttachmentBook();
  for (
    const name of ["fine", "doubt", "broken", "locked", "gone", "damaged"]
  ) {
    book.add(attachmentOf(name));
  }
  const listed = book.list();
  book.forget({ containerId: "gone", ifname: "eth0" });
  const locks = new KeyedMutex();
  const stop = new AbortController();
  using _held = await locks.lock("locked:eth0", stop);
  const found: string[] = [];
  let looks = 0;
  const inspector = new EgressInspector({
    book: {
      // As it was when the look began.
      list: () => {
        looks++;
        return listed;
      },
      at: (key: Attachment["key"]) => book.at(key),
    } as AttachmentBook,
    locks,
    intervalMs: 5,
    reconciler: { enqueue: ({ name }) => void found.push(name) },
    setup: {
      doubt: ({ pod }) => pod.name === "doubt",
      findDamage: ({ pod }) =>
        pod.name === "broken"
          ? Promise.reject(new Error("the kernel does not answer"))
          : Promise.resolve(pod.name === "fine" ? [] : ["a rule is missing"]),
    },
  });
  const running = inspector.run(stop.signal);
  await untilPasses(() => assert.ok(looks >= 3));
  stop.abort();
  await assert.rejects(running);
  assert.deepEqual([...new Set(found)], ["doubt", "damaged"]);
});
