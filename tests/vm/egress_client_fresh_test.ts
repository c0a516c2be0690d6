// Clients that are made at once, in a namespace that is new, with real tunnels.
import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  applyClient,
  clearClient,
  type ClientGateway,
} from "../../lib/egress/mod.ts";
import {
  clientLab,
  directGatewayFor,
  EVERYWHERE,
  gatewayFor,
  planOf,
  SERVICES,
} from "./egress_client_lab.ts";
import { ADDRESSES, addressesOf, shell } from "./egress_server_lab.ts";
import { applyCut } from "../netns/egress_client_lab.ts";

const EGRESS = gatewayFor(EVERYWHERE);
const MTU = 1500;

const FIXED = { ...EGRESS, sourcePortAuto: false };
const DIRECT = directGatewayFor(EVERYWHERE);
const VARIANTS:
  readonly (readonly [string, ClientGateway, readonly Family[]])[] = [
    ["automatic source port", EGRESS, FAMILIES],
    ["fixed source port", FIXED, FAMILIES],
    ["IPv4 only", EGRESS, ["ipv4"]],
    ["IPv6 only", EGRESS, ["ipv6"]],
    ["gateways that it chooses", DIRECT, FAMILIES],
  ];
for (const [name, gateway, families] of VARIANTS) {
  Deno.test(`a client made at once is as one made step by step, with ${name}`, async () => {
    await using lab = await clientLab({ servers: true });
    const { netns } = lab;
    const all = addressesOf("client");
    const addresses = Object.fromEntries(families.map((f) => [f, all[f]]));
    const gateways = [gateway];
    const plan = planOf(gateways, { addresses });
    const { changes } = await applyClient(plan, { netns, freshMtu: MTU });
    // It says so only where it did not fall back to the steps.
    assert.match(changes[0] ?? "", /^add \S+ rule "1800: /);
    assert.ok(changes.some((change) => change.startsWith("add route")));
    const state = await lab.state();
    assert.deepEqual((await lab.apply(gateways, { addresses })).changes, []);
    for (const family of families) {
      const seen = await lab.lab.ask(lab.client, family, 100_000);
      assert.equal(seen, ADDRESSES.gateway[family]);
    }
    assert.equal(await clearClient({ netns }), true);
    await lab.apply(gateways, { addresses });
    assert.equal(await lab.state(), state);
  });
}

Deno.test("a namespace that is said to be new and has a client's tunnels becomes as planned", async () => {
  await using lab = await clientLab({ servers: true });
  const { netns } = lab;
  await lab.apply([{ ...EGRESS, sourcePortAuto: false }]);
  await applyClient(planOf([EGRESS]), { netns, freshMtu: MTU });
  const state = await lab.state();
  await clearClient({ netns });
  await lab.apply([EGRESS]);
  assert.equal(await lab.state(), state);
  for (const family of FAMILIES) {
    const seen = await lab.lab.ask(lab.client, family, 100_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
  }
});

Deno.test("a namespace that is said to be new never sends a new gateway's destinations into an old tunnel", async () => {
  await using lab = await clientLab({ servers: true });
  const { netns } = lab;
  const freshMtu = MTU;
  await applyClient(planOf([EGRESS]), { netns, freshMtu });
  const destinations = [...EVERYWHERE, "198.51.100.0/24", "2001:db8:7::/48"];
  const plan = planOf([gatewayFor(destinations, { service: SERVICES[1] })]);
  // What was made at once is there, and no step has come after it.
  assert.equal(await applyCut(plan, { netns, freshMtu, steps: 1 }), true);
  const old = planOf([EGRESS]).tunnels.map(({ name }) => name);
  const show = ["-4", "-6"].map((family) =>
    `ip ${family} route show table 118`
  );
  const routes = (await shell(lab.client, show.join("; "))).split("\n");
  const intoOld = routes.filter((route) =>
    old.some((name) => route.includes(` dev ${name} `))
  );
  assert.deepEqual(
    intoOld.map((route) => route.split(" dev ")[0]),
    ["default", "default"],
    routes.join("\n"),
  );
  await applyClient(plan, { netns, freshMtu });
  const state = await lab.state();
  assert.ok(old.every((name) => !state.includes(name)), state);
  await clearClient({ netns });
  await applyClient(plan, { netns, freshMtu });
  assert.equal(await lab.state(), state);
  for (const family of FAMILIES) {
    const seen = await lab.lab.ask(lab.client, family, 100_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
  }
});
