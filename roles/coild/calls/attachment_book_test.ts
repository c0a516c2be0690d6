import assert from "node:assert/strict";
import { Address, type DualStack } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { AttachmentBook } from "./attachment_book.ts";
import type { Attachment } from "./attachment.ts";

const OWN = "10.1.0.7";

function attachment(
  containerId: string,
  { uid, name = "pod", addresses = {} }: {
    readonly uid?: string;
    readonly name?: string;
    readonly addresses?: DualStack<Address>;
  } = {},
): Attachment {
  return {
    key: { containerId, ifname: "eth0" },
    pod: { namespace: "ns", name },
    ...(uid !== undefined && { uid }),
    addresses,
    openNetns: () => Promise.resolve(undefined),
  };
}

function pod(uid: string, ...ips: string[]): V1Pod {
  return named("pod", uid, ...ips);
}

function named(name: string, uid: string, ...ips: string[]): V1Pod {
  return {
    metadata: { namespace: "ns", name, uid },
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
  assert.deepEqual(book.list(), [second]);
  book.forget(first.key);
  assert.equal(book.of(pod("u1")), second);
  book.forget(second.key);
  assert.equal(book.of(pod("u1")), undefined);
  // A sandbox that follows one whose end was seen.
  book.add(first);
  assert.equal(book.at(first.key), first);
  assert.equal(book.at(second.key), undefined);
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

Deno.test("AttachmentBook: what another pod was attached by is not the pod's whose status has its address still", () => {
  const book = new AttachmentBook();
  book.add(attachment("c1", { uid: "u1", name: "new" }));
  assert.ok(book.isOfAnother(attachment("c1", { uid: "u2", name: "old" })));
  assert.ok(!book.isOfAnother(attachment("c1", { uid: "u1", name: "new" })));
  assert.ok(!book.isOfAnother(attachment("c2", { uid: "u2", name: "old" })));
});

Deno.test("AttachmentBook: an ADD takes its attachment from a pod that was found by the address", () => {
  const book = new AttachmentBook();
  book.add(attachment("c1", { uid: "u2", name: "old" }));
  const made = attachment("c1", { uid: "u1", name: "new" });
  book.add(made);
  assert.equal(book.of(named("old", "u2", OWN)), undefined);
  assert.equal(book.of(named("new", "u1")), made);
  assert.equal(book.at(made.key), made);
});

Deno.test("AttachmentBook: what was found by an address is the pod's for as long as it has that, and proves nothing against the next one", () => {
  const book = new AttachmentBook();
  const addresses = { ipv4: Address.parse(OWN) };
  const found = { ...attachment("c1", { uid: "u1", addresses }) };
  book.add({ ...found, byAddress: true });
  assert.equal(book.of(pod("u1", OWN))?.key.containerId, "c1");
  assert.equal(book.of(pod("u1", "10.9.9.9")), undefined);
  assert.ok(!book.isOfAnother(attachment("c1", { uid: "u2", name: "new" })));
  book.add(found);
  assert.equal(book.of(pod("u1", "10.9.9.9"))?.key.containerId, "c1");
});

Deno.test("AttachmentBook: one address in common tells whose an attachment without a UID is", () => {
  const book = new AttachmentBook();
  const addresses = {
    ipv4: Address.parse(OWN),
    ipv6: Address.parse("fd02::7"),
  };
  const found = attachment("c1", { addresses });
  book.add(found);
  assert.equal(book.of(pod("u1", OWN)), found);
  assert.equal(book.of(pod("u1", "10.1.0.9", "fd02::7")), found);
  assert.equal(book.of(pod("u1", "10.1.0.9")), undefined);
});
