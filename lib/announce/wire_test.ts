import assert from "node:assert/strict";
import { Address } from "../inet/mod.ts";
import {
  type Announcement,
  formatAnnouncement,
  formatRefusal,
  parseAnnouncement,
  parseRefusal,
} from "./mod.ts";

const MESSAGE = {
  egress: { namespace: "nat", name: "internet" },
  pod: { namespace: "team", name: "client-0", uid: "8d2a-41" },
  addresses: ["10.1.1.2", "fd01::2"],
  block: "default-3",
};

Deno.test("parseAnnouncement() reads what formatAnnouncement() writes", () => {
  const announcement: Announcement = {
    ...MESSAGE,
    addresses: MESSAGE.addresses.map((text) => Address.parse(text)),
  };
  const text = formatAnnouncement(announcement);
  assert.deepEqual(JSON.parse(text), MESSAGE);
  assert.deepEqual(parseAnnouncement(text), announcement);
});

Deno.test("parseAnnouncement() reads messages without a block", () => {
  const { block: _none, ...older } = MESSAGE;
  assert.equal(parseAnnouncement(JSON.stringify(older)).block, undefined);
});

Deno.test("parseAnnouncement() leaves members of a newer version alone", () => {
  const text = JSON.stringify({ ...MESSAGE, hurry: true });
  assert.equal(parseAnnouncement(text).pod.name, "client-0");
});

const { pod, egress } = MESSAGE;
for (
  const [what, message, reason] of [
    ["text", "hello", /not JSON/],
    ["nothing", "", /not JSON/],
    ["a list", [], /"announcement" must be an object/],
    ["null", null, /"announcement" must be an object/],
    ["no Egress", { pod, addresses: ["10.1.1.2"] }, /"egress" must be/],
    ["a path as name", {
      ...MESSAGE,
      egress: { ...egress, name: "../secrets" },
    }, /"egress\.name"/],
    ["no UID", { ...MESSAGE, pod: { ...pod, uid: "" } }, /"pod\.uid"/],
    ["a number as UID", { ...MESSAGE, pod: { ...pod, uid: 1 } }, /"pod\.uid"/],
    ["a long name", {
      ...MESSAGE,
      pod: { ...pod, name: "a".repeat(254) },
    }, /"pod\.name"/],
    ["no address", { ...MESSAGE, addresses: [] }, /one of each family|one at/],
    ["no list", { ...MESSAGE, addresses: "10.1.1.2" }, /"addresses"/],
    ["two of one family", {
      ...MESSAGE,
      addresses: ["10.1.1.2", "10.1.1.3"],
    }, /each family/],
    [
      "a prefix",
      { ...MESSAGE, addresses: ["10.1.1.2/32"] },
      /not a valid IP address/,
    ],
    ["an address with a zone", {
      ...MESSAGE,
      addresses: ["fe80::1%eth0"],
    }, /not a valid IP address/],
    ["a path as block", { ...MESSAGE, block: "../x" }, /"announcement\.block"/],
    ["far too much", { ...MESSAGE, more: "x".repeat(9_000) }, /longer than/],
  ] as const
) {
  Deno.test(`parseAnnouncement() refuses ${what}`, () => {
    const text = typeof message === "string"
      ? message
      : JSON.stringify(message);
    assert.throws(
      () => parseAnnouncement(text),
      (error) => error instanceof SyntaxError && reason.test(error.message),
    );
  });
}

Deno.test("parseRefusal() reads the reason, or what there is instead", () => {
  assert.equal(parseRefusal(formatRefusal("not a client")), "not a client");
  assert.equal(parseRefusal("404 page not found\n"), "404 page not found");
  assert.equal(parseRefusal('{"error":3}'), '{"error":3}');
});
