import assert from "node:assert/strict";
import { Address, type DualStack } from "../../lib/inet/mod.ts";
import type { V1Pod } from "../../lib/kube/mod.ts";
import { AttachmentBook } from "./attachment_book.ts";
import type { Attachment } from "./attachments.ts";

const OWN = "10.1.0.7";

function attachment(
  containerId: string,
  { uid, addresses = {} }: {
    readonly uid?: string;
    readonly addresses?: DualStack<Address>;
  } = {},
): Attachment {
  return {
    key: { containerId, ifname: "eth0" },
    pod: { namespace: "ns", name: "pod" },
    ...(uid !== undefined && { uid }),
    addresses,
    openNetns: () => Promise.resolve(undefined),
  };
}

function pod(uid: string, ...ips: string[]): V1Pod {
  return {
    metadata: { namespace: "ns", name: "pod", uid },
    status: { podIPs: ips.map((ip) => ({ ip })) },
  };
}

Deno.test("AttachmentBook: the last attachment of a pod counts, and the first one's end changes nothing", () => {
  const book = new AttachmentBook();
  const [first, second] = [
    attachment("c1", { uid: "u1" }),
    attachment("c2", { uid: "u1" }),
  ];
  book.add(first);
  book.add(second);
  assert.equal(book.of(pod("u1")), second);
  book.forget(first.key);
  assert.equal(book.of(pod("u1")), second);
  book.forget(second.key);
  assert.equal(book.of(pod("u1")), undefined);
});

Deno.test("AttachmentBook: an earlier pod of the name has none of the later one's", () => {
  const book = new AttachmentBook();
  book.add(attachment("c1", { uid: "u1" }));
  assert.equal(book.of(pod("u2")), undefined);
  assert.equal(book.of(pod("u1"))?.key.containerId, "c1");
});

Deno.test("AttachmentBook: an attachment of unknown UID is that of the pod that has its addresses", () => {
  const book = new AttachmentBook();
  const addresses = { ipv4: Address.parse(OWN) };
  book.add(attachment("c2", { addresses }));
  assert.equal(book.of(pod("u1", "10.1.0.3")), undefined);
  assert.equal(book.of(pod("u2")), undefined);
  assert.equal(book.of(pod("u2", "fd00::7", OWN))?.key.containerId, "c2");
});
