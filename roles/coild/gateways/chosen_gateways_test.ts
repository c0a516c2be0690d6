import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import type { ClientGateway } from "../../../lib/egress/mod.ts";
import { gatewayFor } from "../../../lib/egress/testing.ts";
import {
  chosenGroups,
  endingOf,
  goneOf,
  lostOf,
  readyOf,
} from "./chosen_gateways.ts";
import { byName } from "../clients/client_state.ts";

const [A4, B4, C4, A6, B6] = [
  "10.1.9.1",
  "10.1.9.2",
  "10.1.9.3",
  "fd02::1",
  "fd02::2",
]
  .map(Address.parse) as [Address, Address, Address, Address, Address];
/** Of two clients, one of which has not yet heard of a gateway; one drains. */
const NAT = [
  gatewayFor("internet/nat", [], { direct: [A4, A6], senders: [A4, A6] }),
  gatewayFor("internet/nat", [], { direct: [B4], senders: [A4, B4] }),
];
const SERVICE = gatewayFor("other/nat", [], { senders: [C4] });

Deno.test("chosenGroups() has the gateways of all clients that choose, each once, by Egress and family", () => {
  const groups = chosenGroups([...NAT, SERVICE]);
  assert.deepEqual(
    groups.map(({ name, gateways }) => `${name}: ${gateways.join()}`),
    [`internet/nat: ${A4},${B4}`, `internet/nat: ${A6}`],
  );
  const [nat] = NAT;
  assert.ok(nat);
  const uids = new Map([[`${A4}`, "a"], [`${A6}`, "a"]]);
  assert.deepEqual(
    chosenGroups([{ ...nat, uids }]).map((group) => group.uids),
    [uids, uids],
  );
});

Deno.test("lostOf() has the lost gateways of clients that choose", () => {
  const lost = new Set([A4, A6, C4].map(String));
  assert.deepEqual(lostOf([...NAT, SERVICE], { lost }), [A4, A6]);
});

Deno.test("endingOf() has the gateways of Egresses that end connections", () => {
  const [nat] = NAT;
  assert.ok(nat);
  const keeping = gatewayFor("kept/nat", [], {
    direct: [A4, B4],
    keepsLost: true,
  });
  assert.deepEqual(endingOf([nat, keeping, SERVICE]), [A4, A6]);
});

Deno.test("readyOf() has the gateways that take new connections", () => {
  assert.deepEqual(readyOf([...NAT, SERVICE]), [A4, A6, B4]);
});

Deno.test("goneOf() has what Egresses that end connections have no more, unless they have none left", () => {
  const of = (name: string, ...direct: readonly Address[]) =>
    gatewayFor(name, [], { direct, senders: [] });
  const [nat, other] = ["internet/nat", "other/nat"] as const;
  const known = byName([of(nat, A4, B4, A6, B6), of(other, B4, C4)]);
  const gone = (...now: Parameters<typeof goneOf>[0]) =>
    goneOf(now, known).map(String);
  assert.deepEqual(gone(of(nat, A4, B4, A6, B6)), []);
  assert.deepEqual(gone(of(nat, A4, A6)), [`${B4}`, `${B6}`]);
  assert.deepEqual(gone({ ...of(nat, A4, A6), keepsLost: true }), []);
  // One that drains is there; one of another Egress, too.
  assert.deepEqual(gone({ ...of(nat, A4, A6), senders: [B6] }), [`${B4}`]);
  assert.deepEqual(gone(of(nat, A4, A6), of(other, B4, C4)), [`${B6}`]);
  assert.deepEqual(gone(of(nat)), []);
  assert.deepEqual(gone(of("new/nat", C4)), []);
});

Deno.test("goneOf() has none of a family in which an Egress has no gateway left", () => {
  const of = (name: string, ...direct: readonly Address[]) =>
    gatewayFor(name, [], { direct, senders: [] });
  const [nat, other] = ["internet/nat", "other/nat"] as const;
  const known = byName([of(nat, A4, B4, A6), of(other, C4, B6)]);
  const gone = (...now: Parameters<typeof goneOf>[0]) =>
    goneOf(now, known).map(String);
  assert.deepEqual(gone(of(nat, A4)), [`${B4}`]);
  assert.deepEqual(gone(of(nat, A6)), []);
  // A gateway of another Egress says nothing of this one's.
  assert.deepEqual(gone(of(nat, A4, B4), of(other, C4, B6)), []);
});

Deno.test("goneOf() has a gateway of a family in which none is left if its pod is none of the Egress'", () => {
  const of = (pods: Readonly<Record<string, string>>, ...all: Address[]) =>
    gatewayFor("internet/nat", [], {
      direct: all,
      senders: [],
      uids: new Map(Object.entries(pods)),
    });
  const both = { [`${A4}`]: "a", [`${B4}`]: "b", [`${A6}`]: "a" };
  const before = of({ ...both, [`${B6}`]: "b" }, A4, B4, A6, B6);
  const gone = (now: ClientGateway) =>
    goneOf([now], byName([before])).map(String);
  // What the other family's pod has is kept before this is asked.
  assert.deepEqual(gone(of({ [`${A4}`]: "a" }, A4)), [`${B4}`, `${B6}`]);
  assert.deepEqual(gone(of({}, A4)), [`${B4}`]);
  assert.deepEqual(gone(of({})), []);
});

Deno.test("goneOf() has a gateway whose address another pod of the Egress has now", () => {
  const of = (uid: string | undefined) =>
    gatewayFor("internet/nat", [], {
      direct: [A4, B4],
      senders: [],
      ...(uid !== undefined && {
        uids: new Map([[`${A4}`, uid], [`${B4}`, "b"]]),
      }),
    });
  const gone = (before: string | undefined, now: string | undefined) =>
    goneOf([of(now)], byName([of(before)])).map(String);
  assert.deepEqual(gone("a", "a"), []);
  assert.deepEqual(gone("a", "later"), [`${A4}`]);
  assert.deepEqual(gone(undefined, "a"), []);
  assert.deepEqual(gone("a", undefined), []);
});
