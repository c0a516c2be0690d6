import assert from "node:assert/strict";
import type { ClientGateway } from "../../../lib/egress/mod.ts";
import { gatewayFor } from "../../../lib/egress/testing.ts";
import { Address, FAMILIES } from "../../../lib/inet/mod.ts";
import { keepChoices } from "./kept_choices.ts";

function gateway(name: string, direct?: readonly string[]): ClientGateway {
  return gatewayFor(name, [], { direct: direct?.map(Address.parse) });
}

Deno.test("keepChoices() leaves no gateway to choose where some were chosen before, and what is chosen now as it is", () => {
  const before = [
    gateway("nat/left", []),
    gateway("nat/chosen", ["10.1.0.4"]),
    gateway("nat/served"),
  ];
  const kept = keepChoices(
    [
      gateway("nat/left"),
      gateway("nat/chosen", ["10.1.0.4"]),
      gateway("nat/never"),
      gateway("nat/served"),
      gateway("nat/new", ["10.1.0.5"]),
    ],
    new Map(before.map((each) => [each.name, each])),
  );
  assert.deepEqual(
    kept.map(({ name, direct }) => [name, direct?.join()]),
    [
      ["nat/left", ""],
      ["nat/chosen", "10.1.0.4"],
      ["nat/never", undefined],
      ["nat/served", undefined],
      ["nat/new", "10.1.0.5"],
    ],
  );
});

/** Gateways of Egress "nat/a" in a cluster of two families: "POD" for both addresses, "POD/4" for that of IPv4 alone; "!" in front: not ready. */
function shown(...pods: readonly string[]): ClientGateway {
  const all = pods.flatMap((text) => {
    const [, mark, pod = "", family] = /^(!?)(\w)(?:\/(\d))?$/.exec(text) ?? [];
    const number = pod.charCodeAt(0) - 96;
    return [`10.1.0.${number}`, `fd01::${number}`]
      .map((address, i) => ({
        address,
        pod,
        isReady: mark === "",
        is4: i === 0,
      }))
      .filter(({ is4 }) => family === undefined || is4 === (family === "4"));
  });
  const addresses = (of: typeof all) =>
    of.map(({ address }) => Address.parse(address));
  const ready = addresses(all.filter(({ isReady }) => isReady));
  return gatewayFor("nat/a", [], {
    senders: addresses(all),
    direct: ready,
    uids: new Map(all.map(({ address, pod }) => [address, pod])),
    near: new Set(ready.slice(0, 1).map(String)),
    available: FAMILIES.filter((family) =>
      ready.some((each) => each.family === family)
    ),
  });
}

/** What is kept of a gateway; `before` is what was known. */
function kept(now: ClientGateway, before: ClientGateway): ClientGateway {
  const [gateway] = keepChoices([now], new Map([[before.name, before]]));
  assert.ok(gateway);
  return gateway;
}

Deno.test("keepChoices() keeps gateways of a family that is away while the other has their pods, as ready as there", () => {
  const before = shown("a", "b", "c");
  const now = kept(shown("!a/4", "b/4", "d/4"), before);
  assert.deepEqual(
    now.senders.join(" "),
    "10.1.0.1 10.1.0.2 10.1.0.4 fd01::1 fd01::2",
  );
  assert.deepEqual(now.direct?.join(" "), "10.1.0.2 10.1.0.4 fd01::2");
  assert.deepEqual(now.available, FAMILIES);
  // It goes on so, however often it is looked at.
  assert.deepEqual(kept(shown("!a/4", "b/4", "d/4"), now), now);
  // Once more slices come, they alone count.
  assert.deepEqual(kept(shown("b", "d/4"), now), shown("b", "d/4"));
  const back = kept(shown("b/6"), before);
  assert.equal(back.senders.join(" "), "fd01::2 10.1.0.2");
  assert.deepEqual([...back.near ?? []].sort(), ["fd01::2"]);
  assert.deepEqual([...kept(shown("a/6"), before).near ?? []].sort(), [
    "10.1.0.1",
    "fd01::1",
  ]);
  const drained = kept(shown("!a/4", "b/4"), shown("a", "!b"));
  assert.equal(drained.direct?.join(" "), "10.1.0.2 fd01::2");
  assert.deepEqual(kept(shown("!a/4"), before).available, []);
});

Deno.test("keepChoices() keeps all gateways of a family that is away whose pods are not known, and none where no family has any", () => {
  const known = { ...shown("a", "b"), uids: new Map(), direct: [] };
  const now = kept(shown("c/4"), known);
  assert.equal(now.senders.join(" "), "10.1.0.3 fd01::1 fd01::2");
  assert.equal(now.direct?.join(" "), "10.1.0.3 fd01::1 fd01::2");
  assert.deepEqual(kept(shown(), known), shown());
  // A Service that has one family only.
  const { ipv4 } = shown().service;
  assert.ok(ipv4);
  const single = { ...shown("a/4"), service: { ipv4 } };
  assert.deepEqual(kept(single, shown("a")), single);
});
