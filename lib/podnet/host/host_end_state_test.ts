import assert from "node:assert/strict";
import { Address, type DualStack } from "../../inet/mod.ts";
import { helpfulSteps, lacksOfEnd, missingSteps } from "./host_end_state.ts";
import { type HostEndInput, planPod } from "../plan/plan.ts";
import { renderStep } from "../testing.ts";

const ADDRESSES: DualStack<Address> = {
  ipv4: Address.parse("10.1.2.3"),
  ipv6: Address.parse("fd02::3"),
};
const GATEWAYS = ["169.254.1.1", "fe80::1ff:fe00:1"].map((text) =>
  Address.parse(text)
);
const INPUT: HostEndInput = {
  addresses: ADDRESSES,
  nodeAddresses: { ipv4: Address.parse("10.0.0.1") },
  hostMac: "02:00:01:00:00:01",
  tableId: 116,
  protocolId: 30,
  gatewayMode: "link-local",
};

function end(
  { up = true, routes = ADDRESSES, addresses = GATEWAYS }: {
    readonly up?: boolean;
    readonly routes?: DualStack<Address>;
    readonly addresses?: readonly Address[];
  } = {},
): Parameters<typeof lacksOfEnd>[0] {
  return { pod: { up, addresses: routes }, addresses };
}

Deno.test("lacksOfEnd() finds a whole end whole, of either mode of gateways", () => {
  assert.deepEqual(lacksOfEnd(end(), INPUT), []);
  // As upstream Coil makes it: the node's address on the veth.
  const addresses = ["10.0.0.1", "fd00::1", "fe80::2"].map((text) =>
    Address.parse(text)
  );
  assert.deepEqual(lacksOfEnd(end({ addresses }), INPUT), []);
  // Of one family alone.
  const { ipv4 } = ADDRESSES;
  assert.ok(ipv4);
  const one = end({ addresses: GATEWAYS.slice(0, 1), routes: { ipv4 } });
  assert.deepEqual(lacksOfEnd(one, { ...INPUT, addresses: { ipv4 } }), []);
});

Deno.test("lacksOfEnd() names what is missing", () => {
  assert.deepEqual(lacksOfEnd(end({ up: false }), INPUT), ["link"]);
  for (const address of GATEWAYS) {
    const found = end({ addresses: [address] });
    assert.deepEqual(lacksOfEnd(found, INPUT), ["address"]);
  }
  const other = ["169.254.1.1", "fd00::1"].map((text) => Address.parse(text));
  assert.deepEqual(lacksOfEnd(end({ addresses: other }), INPUT), ["address"]);
  const { ipv4 } = ADDRESSES;
  assert.deepEqual(
    lacksOfEnd(end({ routes: ipv4 ? { ipv4 } : {} }), INPUT),
    ["route"],
  );
  assert.deepEqual(
    lacksOfEnd(end({ up: false, routes: {}, addresses: [] }), INPUT),
    ["link", "address", "route"],
  );
});

Deno.test("an end that has nothing gets all that ADD gives it", () => {
  const podMac = "02:00:02:00:00:02";
  const nothing = end({ up: false, routes: {}, addresses: [] });
  const text = (steps: ReturnType<typeof missingSteps>) =>
    steps.map((step) => renderStep(step, "veth0")).toSorted();
  const plan = planPod({
    ...INPUT,
    pool: "default",
    containerId: "c",
    ifname: "eth0",
    hostVethName: "veth0",
    podMac,
    mtu: 0,
    sources: "own",
  });
  const input = { ...INPUT, podMac };
  assert.deepEqual(
    text([...missingSteps(nothing, input), ...helpfulSteps(input)]),
    text(
      [...plan.host, ...plan.settle].filter(({ kind }) => kind !== "link"),
    ),
  );
});
