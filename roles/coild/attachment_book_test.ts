import assert from "node:assert/strict";
import { AttachmentBook } from "./attachment_book.ts";
import type { Attachment } from "./attachments.ts";

function attachment(containerId: string, uid?: string): Attachment {
  return {
    key: { containerId, ifname: "eth0" },
    pod: { namespace: "ns", name: "pod" },
    ...(uid !== undefined && { uid }),
    addresses: {},
    openNetns: () => Promise.resolve(undefined),
  };
}

Deno.test("AttachmentBook: the last attachment of a pod counts, and the first one's end changes nothing", () => {
  const book = new AttachmentBook();
  const [first, second] = [attachment("c1"), attachment("c2")];
  book.add(first);
  book.add(second);
  assert.equal(book.of("ns/pod", undefined), second);
  book.forget(first.key);
  assert.equal(book.of("ns/pod", undefined), second);
  book.forget(second.key);
  assert.equal(book.of("ns/pod", undefined), undefined);
});

Deno.test("AttachmentBook: an earlier pod of the name has none of the later one's", () => {
  const book = new AttachmentBook();
  book.add(attachment("c1", "u1"));
  assert.equal(book.of("ns/pod", "u2"), undefined);
  assert.equal(book.of("ns/pod", "u1")?.key.containerId, "c1");
  assert.equal(book.of("ns/pod", undefined)?.key.containerId, "c1");
});
