import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { AnnouncedClients } from "./announced_clients.ts";
import { noteChange } from "./client_changes.ts";
import type { ClientPod } from "./client_pod.ts";
import { ClientSet } from "./client_set.ts";

configureLogging({ write: () => {} });

const addressesOf = (texts: readonly string[]) =>
  texts.map((text) => Address.parse(text));

function pod(uid: string, ...texts: string[]): ClientPod {
  const addresses = addressesOf(texts);
  const nodeName = "node1";
  return { namespace: "team", name: "client", uid, nodeName, addresses };
}

/** A set of clients with announcements, and the pod watcher's side of it. */
function fixture(
  { confirmMs = 60_000, isConfirmerAway = () => Promise.resolve(false) } = {},
) {
  const clients = new ClientSet({ families: ["ipv4", "ipv6"] });
  let expiries = 0;
  const announced = new AnnouncedClients({
    clients,
    confirmMs,
    isConfirmerAway,
    onExpired: () => expiries++,
  });
  let before: ClientPod | undefined;
  return {
    announced,
    expiries: () => expiries,
    served: () => [...clients.addresses().keys()].sort(),
    announce: (who: ClientPod, ...texts: string[]) =>
      announced.add(who, addressesOf(texts)),
    watch: (now: ClientPod | undefined) => {
      if (before !== undefined && before.uid !== now?.uid) {
        noteChange({ uid: before.uid, pod: undefined }, { clients, announced });
      }
      if (now !== undefined) {
        noteChange({ uid: now.uid, pod: now }, { clients, announced });
      }
      before = now;
    },
    [Symbol.dispose]: () => announced[Symbol.dispose](),
  };
}

Deno.test("AnnouncedClients serves an address until the status has it, and then by the status", () => {
  using f = fixture();
  f.watch(pod("u1"));
  f.announce(pod("u1"), "10.1.1.2", "fd01::2");
  assert.deepEqual(f.served(), ["10.1.1.2", "fd01::2"]);
  f.watch(pod("u1"));
  assert.equal(f.announced.size, 1, "a status without addresses says nothing");
  f.watch(pod("u1", "10.1.1.2", "fd01::2"));
  assert.equal(f.announced.size, 0);
  assert.deepEqual(f.served(), ["10.1.1.2", "fd01::2"]);
  f.watch(undefined);
  assert.deepEqual(f.served(), []);
});

Deno.test("AnnouncedClients takes a later status with other addresses for the truth", () => {
  using f = fixture();
  f.announce(pod("u1"), "10.1.1.2");
  f.watch(pod("u1", "10.1.1.3"));
  assert.deepEqual(f.served(), ["10.1.1.3"]);
  assert.equal(f.announced.size, 0);
});

Deno.test("AnnouncedClients serves old and new address while the status has the old one of a restarted pod", () => {
  using f = fixture();
  f.watch(pod("u1", "10.1.1.2"));
  f.announce(pod("u1", "10.1.1.2"), "10.1.1.7");
  f.watch(pod("u1", "10.1.1.2"));
  assert.deepEqual(f.served(), ["10.1.1.2", "10.1.1.7"]);
  f.watch(pod("u1", "10.1.1.7"));
  assert.deepEqual(f.served(), ["10.1.1.7"]);
});

Deno.test("AnnouncedClients takes an address out that nobody confirms", async () => {
  using f = fixture({ confirmMs: 20 });
  f.watch(pod("u1"));
  f.announce(pod("u1"), "10.1.1.2");
  await sleep(60);
  assert.deepEqual(f.served(), []);
  assert.equal(f.expiries(), 1);
  assert.equal(f.announced.size, 0);
});

for (
  const [what, away] of [
    ["while coil-controller is away", () => Promise.resolve(true)],
    ["without an API server", () => Promise.reject(new Error("refused"))],
  ] as const
) {
  Deno.test(`AnnouncedClients keeps an address that nobody can confirm ${what}`, async () => {
    let asked = 0;
    let answer: () => Promise<boolean> = away;
    using f = fixture({
      confirmMs: 10,
      isConfirmerAway: () => (asked++, answer()),
    });
    f.watch(pod("u1"));
    f.announce(pod("u1"), "10.1.1.2");
    while (asked < 3) await sleep(5);
    assert.deepEqual(f.served(), ["10.1.1.2"]);
    assert.equal(f.expiries(), 0);
    answer = () => Promise.resolve(false);
    while (f.expiries() === 0) await sleep(5);
    assert.deepEqual(f.served(), []);
  });
}

Deno.test("AnnouncedClients begins to count again with every announcement, which replaces the one before", async () => {
  using f = fixture({ confirmMs: 2_000 });
  f.announce(pod("u1"), "10.1.1.2");
  await sleep(60);
  const secondMs = performance.now();
  f.announce(pod("u1"), "10.1.1.3");
  assert.deepEqual(f.served(), ["10.1.1.3"]);
  while (f.expiries() === 0) await sleep(5);
  // A timer may be late, and is never early.
  assert.ok(performance.now() - secondMs >= 1_999);
  assert.deepEqual(f.served(), []);
});

Deno.test("AnnouncedClients keeps nothing of what the status has already", () => {
  using f = fixture();
  f.watch(pod("u1", "10.1.1.2"));
  f.announce(pod("u1", "10.1.1.2"), "10.1.1.2");
  assert.equal(f.announced.size, 0);
  assert.deepEqual(f.served(), ["10.1.1.2"]);
});

Deno.test("AnnouncedClients serves what a status has that the watch has not brought yet", () => {
  using f = fixture();
  f.announce(pod("u1", "10.1.1.2"), "10.1.1.2");
  assert.deepEqual(f.served(), ["10.1.1.2"]);
  f.watch(pod("u1", "10.1.1.2"));
  assert.equal(f.announced.size, 0);
  assert.deepEqual(f.served(), ["10.1.1.2"]);
});

Deno.test("AnnouncedClients does not serve a pod that went while the API server was asked about it", () => {
  using f = fixture();
  f.watch(pod("u1"));
  f.watch(undefined);
  assert.equal(f.announce(pod("u1"), "10.1.1.2"), false);
  assert.deepEqual(f.served(), []);
  f.watch(pod("u1"));
  assert.equal(f.announce(pod("u1"), "10.1.1.2"), true, "a client again");
  assert.deepEqual(f.served(), ["10.1.1.2"]);
});

Deno.test("AnnouncedClients does not take a pod for its successor of the same name", () => {
  using f = fixture();
  f.watch(pod("u1", "10.1.1.2"));
  f.announce(pod("u2"), "10.1.1.3");
  f.watch(undefined);
  assert.deepEqual(f.served(), ["10.1.1.3"]);
  f.watch(pod("u2", "10.1.1.3"));
  f.watch(pod("u3", "10.1.1.4"));
  assert.deepEqual(f.served(), ["10.1.1.4"]);
});
