import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import { TranslatedSources } from "./translated_sources.ts";

const EGRESS = { namespace: "nat", name: "internet" };
const USER = "system:serviceaccount:kube-system:coild";
const IDENTITY: GatewayIdentity = {
  namespace: "nat",
  egress: "internet",
  pod: "internet-0",
  addresses: {
    ipv4: Address.parse("10.2.0.8"),
    ipv6: Address.parse("fd02::8"),
  },
  node: "n1",
};

/** The gateway 10.2.0.8, fd02::8 on node n1. */
function sourcesLab(identity: Partial<GatewayIdentity> = {}) {
  const clock = new FakeClock();
  let changes = 0;
  const sources = new TranslatedSources({
    identity: { ...IDENTITY, ...identity },
    user: USER,
    onChange: () => changes++,
    clock,
  });
  const report = (
    translated: readonly (readonly [source: string, seenAs: string])[],
    { egress = EGRESS, username = USER, node = "n1" } = {},
    destination = "203.0.113.9",
  ) => {
    const parsed = translated.map(([source, seenAs]) => ({
      source: Address.parse(source),
      seenAs: Address.parse(seenAs),
      destination: Address.parse(destination),
    }));
    const caller = { username, ...node !== "" && { nodeName: node } };
    return sources.take({ egress, translated: parsed }, caller).status;
  };
  const found = () =>
    sources.list().map(({ address, seenAs, destination }) =>
      `${address} as ${seenAs} to ${destination}`
    );
  return { clock, report, found, changes: () => changes };
}

Deno.test("TranslatedSources has what the node says of the gateway's own addresses, each once", () => {
  const { report, found, changes } = sourcesLab();
  assert.equal(report([["10.2.0.8", "192.0.2.1"], ["10.2.0.9", "::1"]]), 204);
  report([["fd02::8", "2001:db8::1"]]);
  // The same with another destination is no change.
  report([["10.2.0.8", "192.0.2.1"]], {}, "198.51.100.1");
  report([["10.2.0.8", "192.0.2.2"]]);
  assert.deepEqual(found(), [
    "10.2.0.8 as 192.0.2.1 to 203.0.113.9",
    "fd02::8 as 2001:db8::1 to 203.0.113.9",
    "10.2.0.8 as 192.0.2.2 to 203.0.113.9",
  ]);
  assert.equal(changes(), 4);
});

Deno.test("TranslatedSources forgets what was not said again within ten minutes", async () => {
  const { clock, report, found } = sourcesLab();
  report([["10.2.0.8", "192.0.2.1"], ["fd02::8", "2001:db8::1"]]);
  await clock.advance(300_000);
  report([["fd02::8", "2001:db8::1"]]);
  await clock.advance(299_999);
  assert.equal(found().length, 2);
  await clock.advance(1);
  assert.deepEqual(found(), ["fd02::8 as 2001:db8::1 to 203.0.113.9"]);
  await clock.advance(300_000);
  assert.deepEqual(found(), []);
});

Deno.test("TranslatedSources keeps eight, and takes others when those are forgotten", async () => {
  const { clock, report, found } = sourcesLab();
  for (let i = 0; i < 9; i++) report([["10.2.0.8", `192.0.2.${i}`]]);
  assert.equal(found().length, 8);
  assert.ok(!found().some((text) => text.includes("192.0.2.8")));
  await clock.advance(600_000);
  report([["10.2.0.8", "192.0.2.8"]]);
  assert.deepEqual(found(), ["10.2.0.8 as 192.0.2.8 to 203.0.113.9"]);
});

Deno.test("TranslatedSources takes only what coild of the gateway's node says about this Egress", () => {
  const { report, found, changes } = sourcesLab();
  const translated = [["10.2.0.8", "192.0.2.1"]] as const;
  for (
    const wrong of [
      { username: "system:serviceaccount:nat:coil-egress" },
      { node: "n2" },
      { node: "" },
      { egress: { ...EGRESS, name: "other" } },
      { egress: { ...EGRESS, namespace: "other" } },
    ]
  ) assert.equal(report(translated, wrong), 403);
  // Of a template of earlier versions, which does not say the node.
  const old = sourcesLab({ node: undefined });
  assert.equal(old.report(translated), 403);
  assert.equal(old.report(translated, { node: "" }), 403);
  assert.deepEqual([found(), changes()], [[], 0]);
});
