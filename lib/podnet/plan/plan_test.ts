import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { LinkNameError } from "../base/errors.ts";
import { planPod, type PodPlanInput } from "./plan.ts";
import { renderPlan } from "../testing.ts";

const POD = {
  ipv4: Address.parse("10.1.2.3"),
  ipv6: Address.parse("fd02::1"),
};
const NODE = {
  ipv4: Address.parse("10.20.30.41"),
  ipv6: Address.parse("fd10::41"),
};

const INPUT: PodPlanInput = {
  pool: "default",
  containerId: "cid0",
  ifname: "eth0",
  addresses: POD,
  nodeAddresses: NODE,
  hostVethName: "veth2fb6b94f",
  hostMac: "02:00:00:00:00:01",
  podMac: "02:00:00:00:00:02",
  mtu: 1450,
  tableId: 116,
  protocolId: 30,
  gatewayMode: "link-local",
  sources: "own",
};

const CASES: readonly (readonly [string, Partial<PodPlanInput>])[] = [
  ["dual", {}],
  ["ipv4", { addresses: { ipv4: POD.ipv4 } }],
  ["ipv6", { addresses: { ipv6: POD.ipv6 } }],
  ["dual_no_node_address", { nodeAddresses: {}, mtu: 0 }],
  ["dual_any_source", { sources: "any" }],
  ["dual_node_address", { gatewayMode: "node-address" }],
  ["dual_node_address_ipv6_node", {
    gatewayMode: "node-address",
    nodeAddresses: { ipv6: NODE.ipv6 },
  }],
];

for (const [name, changes] of CASES) {
  Deno.test(`planPod() plans ${name} as in the golden file`, async () => {
    const plan = planPod({ ...INPUT, ...changes });
    await assertGolden(name, renderPlan(plan, { netns: "POD" }));
  });
}

Deno.test("planPod() refuses a pod without addresses", () => {
  assert.throws(() => planPod({ ...INPUT, addresses: {} }), TypeError);
});

Deno.test("planPod() refuses an identity that its alias would not give back", () => {
  assert.throws(() => planPod({ ...INPUT, containerId: "a:b" }), LinkNameError);
});

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/podnet/${name}.txt`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
