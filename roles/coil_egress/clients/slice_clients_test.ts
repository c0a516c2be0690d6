import assert from "node:assert/strict";
import type { EgressClientSlice } from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { SliceClients } from "./slice_clients.ts";

type Addresses = Readonly<Record<string, string>>;

/** A slice with these clients and their addresses, by UID; "" is none. */
function slice(clients: Addresses): EgressClientSlice {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "EgressClientSlice",
    metadata: { namespace: "nat", name: "any" },
    clients: Object.entries(clients).map(([uid, address]) => ({
      namespace: "team",
      name: `pod-${uid}`,
      uid,
      nodeName: "node1",
      addresses: address === "" ? [] : [address],
    })),
  };
}

function fixture({ lostMs = 60_000 } = {}) {
  const told: string[] = [];
  const clients = new SliceClients({
    lostMs,
    onChange: ({ uid, pod }) =>
      told.push(`${uid} ${pod === undefined ? "gone" : pod.addresses}`),
  });
  return {
    clients,
    /** What has changed since the last call. */
    told: () => told.splice(0),
    set: (key: string, addresses: Addresses) =>
      clients.set(key, slice(addresses)),
    uids: () => [...clients.pods.keys()].sort().join(" "),
    [Symbol.dispose]: () => clients[Symbol.dispose](),
  };
}

Deno.test("SliceClients follows its slices, and reports nothing that is no change", () => {
  using f = fixture();
  f.set("a", { u1: "10.1.1.1", u2: "10.1.1.2" });
  f.set("b", { u3: "10.1.1.3" });
  assert.deepEqual(f.told(), ["u1 10.1.1.1", "u2 10.1.1.2", "u3 10.1.1.3"]);
  f.set("a", { u1: "10.1.1.1", u2: "10.1.1.9" });
  assert.deepEqual(f.told(), ["u2 10.1.1.9"]);
  f.set("a", { u2: "10.1.1.9" });
  assert.deepEqual(f.told(), ["u1 gone"]);
  f.set("b", {});
  f.clients.delete("b");
  assert.deepEqual(f.told(), ["u3 gone"]);
  f.clients.delete("unknown");
  assert.equal(f.uids(), "u2");
});

Deno.test("SliceClients does not lose a client that moves to another slice", () => {
  using f = fixture();
  f.set("a", { u1: "10.1.1.1", u2: "10.1.1.2" });
  f.set("b", { u3: "10.1.1.3" });
  f.told();
  f.set("b", { u3: "10.1.1.3", u1: "10.1.1.1" });
  f.set("a", { u2: "10.1.1.2" });
  assert.deepEqual(f.told(), []);
  assert.equal(f.uids(), "u1 u2 u3");
});

Deno.test("SliceClients has the addresses of a client that any slice has", () => {
  using f = fixture();
  f.set("a", { u1: "10.1.1.1" });
  f.set("b", { u1: "" });
  assert.deepEqual(f.told(), ["u1 10.1.1.1"]);
  f.set("b", { u1: "10.1.1.2" });
  assert.deepEqual(f.told(), ["u1 10.1.1.1,10.1.1.2"]);
  f.set("a", { u1: "10.1.1.2" });
  assert.deepEqual(f.told(), ["u1 10.1.1.2"]);
  f.set("b", {});
  assert.deepEqual(f.told(), []);
});

Deno.test("SliceClients keeps a client of a slice that was deleted with it until a slice has it again", () => {
  using f = fixture();
  f.set("a", { u1: "10.1.1.1", u2: "10.1.1.2" });
  f.told();
  f.clients.delete("a");
  f.set("a", { u1: "10.1.1.1" });
  f.set("b", {});
  assert.deepEqual(f.told(), []);
  f.set("a", {});
  assert.deepEqual(f.told(), ["u1 gone"]);
  f.set("b", { u2: "10.1.1.2" });
  f.set("b", {});
  assert.deepEqual(f.told(), ["u2 gone"]);
});

Deno.test("SliceClients keeps an address of a deleted slice until one has it again, however often slices are deleted", () => {
  using f = fixture();
  f.set("a", { u1: "10.1.1.1" });
  f.clients.delete("a");
  f.set("a", { u1: "" });
  f.clients.delete("a");
  f.set("a", { u1: "" });
  assert.deepEqual(f.told(), ["u1 10.1.1.1"]);
  f.set("a", { u1: "10.1.1.1" });
  f.set("a", { u1: "" });
  assert.deepEqual(f.told(), ["u1 "]);
});

Deno.test("SliceClients forgets the clients of a slice that nobody writes again", async () => {
  using f = fixture({ lostMs: 10 });
  f.set("a", { u1: "10.1.1.1", u2: "10.1.1.2" });
  f.set("b", { u2: "10.1.1.2" });
  f.told();
  f.clients.delete("a");
  f.clients.delete("a");
  while (f.clients.pods.has("u1")) await sleep(5);
  assert.deepEqual(f.told(), ["u1 gone"]);
  assert.equal(f.uids(), "u2");
});
