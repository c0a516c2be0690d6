import assert from "node:assert/strict";
import { Address, type Family, Prefix } from "../../inet/mod.ts";
import { formatVpcHost } from "../../../tests/lab/plan_text/vpc_host.ts";
import type { LinkFacts } from "./eni_links.ts";
import { planVpcHost } from "./host_plan.ts";
import type { VpcHostSettings } from "./host_settings.ts";
import { PRIMARY, SECONDARY, settingsOf } from "./testing.ts";

const LINKS: readonly LinkFacts[] = [
  { index: 1, name: "lo", mac: undefined, kind: undefined },
  { index: 2, name: "eth0", mac: PRIMARY.mac, kind: undefined },
  { index: 3, name: "eth1", mac: SECONDARY.mac, kind: undefined },
];
const DUAL: readonly Family[] = ["ipv4", "ipv6"];
const KERNEL = { links: LINKS, families: DUAL };

const CASES: readonly (readonly [
  string,
  Partial<VpcHostSettings>,
  Partial<typeof KERNEL>,
])[] = [
  ["ipv4", {}, {}],
  ["dual", { families: DUAL }, {}],
  ["ipv6", { families: ["ipv6"] }, {}],
  ["excluded_cidrs", {
    // One of them twice, and one of another family.
    excludedCidrs: ["192.168.0.0/22", "10.0.0.0/16", "fd00::/8"]
      .map(Prefix.parse),
  }, {}],
  ["excluded_everything", { excludedCidrs: [Prefix.parse("0.0.0.0/0")] }, {}],
  ["external_snat", { externalSnat: true }, {}],
  ["no_node_ports", { nodePorts: false }, {}],
  ["no_node_ports_external_snat", { nodePorts: false, externalSnat: true }, {}],
  ["no_metadata", { podImds: false }, {}],
  ["kernel_without_ipv6", { families: DUAL }, { families: ["ipv4"] }],
  ["late_secondary", {}, { links: LINKS.slice(0, 2) }],
  ["late_primary", {}, { links: LINKS.slice(2) }],
  ["primary_alone", { enis: [PRIMARY] }, {}],
  ["many_addresses", {
    enis: [PRIMARY, {
      ...SECONDARY,
      // In three networks of 256 addresses; one of them has one block.
      blocks: [
        ...Array.from({ length: 17 }, (_, n) => `10.0.1.${40 + n}/32`),
        ...["10.0.2.7/32", "10.0.2.9/32", "10.0.2.16/28", "10.0.3.1/32"],
      ].map(Prefix.parse),
    }],
  }, {}],
  ["no_gateway", {
    families: DUAL,
    enis: [PRIMARY, {
      ...SECONDARY,
      gateways: { ipv4: Address.parse("10.0.1.1") },
    }],
  }, {}],
];

for (const [name, settings, kernel] of CASES) {
  Deno.test(`planVpcHost() plans ${name} as in the golden file`, async () => {
    const plan = planVpcHost(settingsOf(settings), { ...KERNEL, ...kernel });
    await assertGolden(name, formatVpcHost(plan));
  });
}

Deno.test("planVpcHost() finds an ENI by its MAC address under any name, below a VLAN", () => {
  const eni = { ...SECONDARY, mac: SECONDARY.mac.toUpperCase() };
  const links = [
    { index: 7, name: "eth1.5", mac: SECONDARY.mac, kind: "vlan" },
    { index: 9, name: "ens6", mac: SECONDARY.mac, kind: undefined },
  ];
  const plan = planVpcHost(settingsOf({ enis: [eni] }), { ...KERNEL, links });
  assert.deepEqual(plan.links.map(({ index, name }) => [index, name]), [
    [9, "ens6"],
  ]);
  assert.deepEqual(
    new Set(plan.routes.map(({ index }) => index)),
    new Set([9]),
  );
});

Deno.test("planVpcHost() takes none of two links with one MAC address", () => {
  const links = ["a", "b"].map((name, i) => ({
    index: 5 + i,
    name,
    mac: SECONDARY.mac,
    kind: "veth",
  }));
  const plan = planVpcHost(settingsOf({ enis: [SECONDARY] }), {
    ...KERNEL,
    links,
  });
  assert.deepEqual(plan.links, []);
  assert.deepEqual(plan.problems.map(({ message }) => message), [
    'Cannot configure ENI "eni-0bbb": links "a", "b" all have MAC address 02:00:00:00:0b:01; give the others another one',
  ]);
});

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/vpc/${name}.txt`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
