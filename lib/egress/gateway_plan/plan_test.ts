import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { ClientLimits } from "./client_limits.ts";
import { formatServerPlan } from "../../../tests/lab/plan_text/egress_gateway.ts";
import { planServer, type ServerRequest } from "./plan.ts";

const OWN = {
  ipv4: Address.parse("10.1.2.2"),
  ipv6: Address.parse("fd01:2::2"),
};

const REQUEST: ServerRequest = {
  addresses: OWN,
  ifname: "eth0",
  mtu: 1500,
  port: 5555,
  sourcePortAuto: true,
};

const CLIENTS = ["10.1.1.2", "10.1.1.3", "fd01:1::2"].map(Address.parse);

const CASES: readonly (readonly [
  string,
  Partial<ServerRequest>,
  ClientLimits?,
])[] = [
  ["server_dual", {}],
  ["server_dual_limits", { probePort: 8081 }, {
    flows: 65536,
    flowsToOneAddress: 16128,
  }],
  ["server_ipv4_few_flows", { addresses: { ipv4: OWN.ipv4 } }, { flows: 150 }],
  ["server_ipv4", { addresses: { ipv4: OWN.ipv4 } }],
  ["server_ipv6", { addresses: { ipv6: OWN.ipv6 } }],
  ["server_dual_fixed_port", { sourcePortAuto: false, port: 5556, mtu: 0 }],
];

for (const [name, changes, limits] of CASES) {
  Deno.test(`planServer() plans ${name} as in the golden file`, async () => {
    const plan = planServer({ ...REQUEST, ...changes });
    await assertGolden(name, formatServerPlan(plan, CLIENTS, limits));
  });
}

Deno.test("planServer() leaves no room that one datagram has not", () => {
  const { families } = planServer({ ...REQUEST, mtu: 1450 });
  assert.equal(families.ipv4?.link.mtu, 1450 - 20 - 8);
  assert.equal(families.ipv6?.link.mtu, 1450 - 40 - 8);
});

Deno.test("planServer() wants forwarding, and takes a loose reverse path check as it is", () => {
  const { ipv4, ipv6 } = planServer(REQUEST).families;
  assert.deepEqual(ipv4?.sysctls, [
    { name: "net/ipv4/ip_forward", value: "1", alsoGood: [] },
    { name: "net/ipv4/conf/all/rp_filter", value: "0", alsoGood: ["2"] },
    { name: "net/ipv4/conf/coil_fou4/rp_filter", value: "0", alsoGood: ["2"] },
  ]);
  assert.deepEqual(ipv6?.sysctls, [
    { name: "net/ipv6/conf/all/forwarding", value: "1", alsoGood: [] },
  ]);
});

Deno.test("planServer() refuses a gateway without an address", () => {
  assert.throws(() => planServer({ ...REQUEST, addresses: {} }), TypeError);
});

Deno.test("planServer() takes the first and the last port, and no limit at all", () => {
  for (const port of [1, 65535]) {
    const { families } = planServer({ ...REQUEST, port });
    assert.equal(families.ipv4?.fouPort.port, port);
  }
  assert.equal(
    planServer({ ...REQUEST, maxFlowsPerClient: 0 }).maxFlowsPerClient,
    0,
  );
});

Deno.test("planServer() refuses a port, an MTU or a limit that is not one", () => {
  for (const maxFlowsPerClient of [-1, 0.5]) {
    assert.throws(
      () => planServer({ ...REQUEST, maxFlowsPerClient }),
      RangeError,
    );
  }
  for (const port of [0, -1, 65536, 1.5, NaN]) {
    assert.throws(() => planServer({ ...REQUEST, port }), RangeError);
  }
  for (const mtu of [-1, 1.5, NaN]) {
    assert.throws(() => planServer({ ...REQUEST, mtu }), RangeError);
  }
});

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/egress/${name}.txt`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
