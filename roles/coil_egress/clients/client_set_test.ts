import assert from "node:assert/strict";
import { Address, FAMILIES } from "../../../lib/inet/mod.ts";
import { ClientSet, type SharedAddress } from "./client_set.ts";

const addressesOf = (...texts: string[]) => texts.map((t) => Address.parse(t));

function fixture(families = FAMILIES) {
  const shared: SharedAddress[] = [];
  const set = new ClientSet({ families, onShared: (s) => shared.push(s) });
  return {
    set,
    shared,
    status: (uid: string, ...texts: string[]) =>
      set.claim(uid, { source: "status", addresses: addressesOf(...texts) }),
    announced: (uid: string, ...texts: string[]) =>
      set.claim(uid, { source: "announced", addresses: addressesOf(...texts) }),
    served: () => [...set.addresses().keys()].sort(),
  };
}

Deno.test("ClientSet serves what a status has, and no more what it had (CT-30)", () => {
  const { set, status, served } = fixture();
  status("a", "10.1.1.2", "fd01::2");
  status("b");
  assert.deepEqual(served(), ["10.1.1.2", "fd01::2"]);
  status("a", "10.1.1.9", "fd01::2");
  assert.deepEqual(served(), ["10.1.1.9", "fd01::2"]);
  set.forget("a");
  set.forget("a");
  assert.deepEqual(served(), []);
  assert.equal(set.size, 0);
});

Deno.test("ClientSet leaves out families that the gateway does not have", () => {
  const { status, served } = fixture(["ipv6"]);
  status("a", "10.1.1.2", "fd01::2");
  assert.deepEqual(served(), ["fd01::2"]);
});

Deno.test("ClientSet keeps an address as long as one live pod has it (CT-33, CT-34, W33)", () => {
  const { set, status, served, shared } = fixture();
  status("job", "10.1.1.2");
  status("next", "10.1.1.2");
  assert.deepEqual(shared.map(({ address, uids }) => [`${address}`, uids]), [
    ["10.1.1.2", ["job", "next"]],
  ]);
  assert.equal(set.sharedCount, 1);
  status("next", "10.1.1.2");
  assert.equal(shared.length, 1, "told again of the same");
  set.forget("job");
  assert.deepEqual(served(), ["10.1.1.2"]);
  assert.equal(set.sharedCount, 0);
  set.forget("next");
  assert.deepEqual(served(), []);
});

Deno.test("ClientSet keeps a shared address when one of its pods gets another (W35)", () => {
  const { status, served } = fixture();
  status("a", "10.1.1.2");
  status("b", "10.1.1.2");
  status("a", "10.1.1.3");
  assert.deepEqual(served(), ["10.1.1.2", "10.1.1.3"]);
});

Deno.test("ClientSet keeps the address of a pod that is gone when its successor was announced before the slice changed", () => {
  const { set, status, announced, served } = fixture();
  status("gone", "10.1.1.2");
  announced("next", "10.1.1.2");
  set.forget("gone");
  assert.deepEqual(served(), ["10.1.1.2"]);
  status("next", "10.1.1.2");
  announced("next");
  assert.deepEqual(served(), ["10.1.1.2"]);
  set.forget("next");
  assert.deepEqual(served(), []);
});

Deno.test("ClientSet serves what is announced until it is taken back, and counts it once", () => {
  const { set, status, announced, served, shared } = fixture();
  announced("a", "10.1.1.2");
  status("a");
  assert.deepEqual(served(), ["10.1.1.2"]);
  status("a", "10.1.1.2");
  announced("a");
  assert.deepEqual(served(), ["10.1.1.2"]);
  announced("a", "10.1.1.3");
  set.forget("a");
  assert.deepEqual(served(), []);
  assert.deepEqual(shared, []);
});

Deno.test("ClientSet.hasStatus() knows what the status has, and no announcement", () => {
  const { set, status, announced } = fixture(["ipv4"]);
  announced("a", "10.1.1.2");
  assert.equal(set.hasStatus("a", addressesOf("10.1.1.2")), false);
  status("a", "10.1.1.2");
  assert.equal(set.hasStatus("a", addressesOf("10.1.1.2")), true);
  assert.equal(set.hasStatus("a", addressesOf("10.1.1.2", "fd01::2")), true);
  assert.equal(set.hasStatus("a", addressesOf("10.1.1.2", "10.1.1.3")), false);
  assert.equal(set.hasStatus("b", addressesOf("10.1.1.2")), false);
});
