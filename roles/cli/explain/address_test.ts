import assert from "node:assert/strict";
import { newVpcNode, vpcBlocksOf, type VpcNode } from "../../../lib/api/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { AGO, block, NOW, pool } from "../../../lib/ipam/audit/testing.ts";
import { explainAddress } from "./address.ts";
import type { AddressHolder, Facts } from "./facts.ts";
import { formatExplanation } from "./text.ts";

const DEFAULT = pool("default", [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);
const PAUSED = {
  ...DEFAULT,
  spec: { ...DEFAULT.spec, paused: true },
};
const RESERVING = {
  ...DEFAULT,
  spec: { ...DEFAULT.spec, reserved: ["10.2.0.9", "10.2.0.201"] },
};
const BLOCKS = [
  block(["default", 0, "n1"], { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
  block(["default", 1, "gone"], { ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }),
  block(["default", 2, "n1"], { ipv4: "10.2.0.64/27", ipv6: "fd02::40/123" }, {
    deletionTimestamp: AGO(0),
  }),
  block(["default", 3, "n1"], { ipv4: "10.2.0.96/27", ipv6: "fd02::60/123" }, {
    labels: { "coil.cybozu.com/reserved": "true" },
  }),
];

function pod(
  name: string,
  addresses: readonly string[],
  more: Partial<AddressHolder> = {},
): AddressHolder {
  return {
    namespace: "apps",
    name,
    node: "n1",
    phase: "Running",
    isEnding: false,
    isHostNetwork: false,
    addresses: addresses.map(Address.parse),
    since: AGO(1),
    ...more,
  };
}

const FACTS: Facts = {
  pods: [],
  blocks: BLOCKS,
  pools: [DEFAULT],
  nodes: ["n1", "n2"],
  others: [],
  unseen: [],
};

function text(address: string, changes: Partial<Facts> = {}): string {
  const report = explainAddress(
    Address.parse(address),
    { ...FACTS, ...changes },
    NOW,
  );
  const { unseen = [] } = changes;
  return formatExplanation({ addresses: [report], ways: [], unseen }, NOW);
}

Deno.test("an address in use: pod, block, pool, node, since when", () => {
  assert.equal(
    text("10.2.0.9", { pods: [pod("web", ["10.2.0.9", "fd02::9"])] }),
    `10.2.0.9 is in use by Pod apps/web
  Pod apps/web on Node n1, Running, for 60m
  AddressBlock default-0 (10.2.0.0/27 + fd02::/123) of Node n1, active, for 5h
  AddressPool default
`,
  );
});

Deno.test("a free address: who may get it, and who had it until it ended", () => {
  const pods = [pod("job", ["10.2.0.9"], { phase: "Succeeded" })];
  assert.equal(
    text("10.2.0.9", { pods }),
    `10.2.0.9 is free: no pod has it; the next one on Node n1 may get it
  Pod apps/job on Node n1 had it until it ended (Succeeded), and began 60m ago
  AddressBlock default-0 (10.2.0.0/27 + fd02::/123) of Node n1, active, for 5h
  AddressPool default
`,
  );
});

Deno.test("who had an address before, as nodes remember it", () => {
  const of = (pod: string, ...addresses: string[]) => ({
    node: "n2",
    addresses,
    containerId: "c",
    ifname: "eth0",
    namespace: "apps",
    pod,
    until: AGO(1),
  });
  const former = [
    of("last", "10.2.0.9", "fd02::9"),
    of("other", "10.2.0.90"),
    of("first", "10.2.0.9"),
  ];
  assert.match(
    text("10.2.0.9", { former }),
    /may get it\n {2}Pod apps\/last on Node n2 had it until 60m ago\n {2}Pod apps\/first on Node n2 had it until 60m ago\n {2}AddressBlock/,
  );
  assert.match(
    text("10.2.0.10", { former }),
    /may get it\n {2}No former holder within a day\n/,
  );
  assert.doesNotMatch(text("10.2.0.10"), /former/);
});

for (
  const [address, changes, expected] of [
    ["10.2.0.70", {}, /free: no pod has it; its block is being returned, so/],
    ["10.2.0.100", {}, /free: no pod has it; its block is reserved, so none/],
    [
      "10.2.0.1",
      {
        pools: [PAUSED],
      },
      /free: no pod has it; its pool is paused, so none gets it\n.*\n.*AddressPool default \(paused\)/,
    ],
    [
      "10.2.0.9",
      { pools: [RESERVING] },
      /free: no pod has it; its pool's spec\.reserved keeps it, so no pod gets it\n.*\n.*AddressPool default \(address reserved\)/,
    ],
    // Only the other family's address at its position is named.
    [
      "fd02::9",
      { pools: [RESERVING] },
      /free: no pod has it; its pool's spec\.reserved keeps it/,
    ],
    ["fd02::8", { pools: [RESERVING] }, /the next one on Node n1 may get it/],
    [
      "10.2.0.201",
      { pools: [RESERVING] },
      /no node has a block of AddressPool "default" with it; its pool's spec\.reserved keeps it/,
    ],
    [
      "10.2.0.200",
      {},
      /is free: no node has a block of AddressPool "default" with it\n {2}AddressPool default\n$/,
    ],
    ["192.0.2.1", {}, /^192.0.2.1 is not Coil's: no AddressPool has it\n$/],
    [
      "192.0.2.1",
      {
        others: [{
          object: "Node n1",
          addresses: [Address.parse("192.0.2.1")],
        }, { object: "Node n2", addresses: [Address.parse("192.0.2.2")] }],
        pods: [pod("proxy", ["192.0.2.1"], { isHostNetwork: true })],
      },
      /not Coil's: no AddressPool has it. It belongs to Node n1 and Pod apps\/proxy on the host network\n$/,
    ],
    [
      "192.0.2.1",
      { pods: [pod("other", ["192.0.2.1"])] },
      /in use by Pod apps\/other\n {2}Pod apps\/other on Node n1, Running, for 60m\n$/,
    ],
    // What may not be read decides nothing.
    [
      "10.2.0.9",
      { pods: undefined, unseen: [{ what: "pods", why: "forbidden" }] },
      /is unknown: not all.*\nNot looked at: pods \(forbidden\)/s,
    ],
    ["10.2.0.9", { blocks: undefined }, /is unknown/],
    ["192.0.2.1", { pools: undefined }, /is unknown/],
  ] as const satisfies readonly [string, Partial<Facts>, RegExp][]
) {
  Deno.test(`explainAddress() of ${address}: ${expected}`, () => {
    assert.match(text(address, changes), expected);
    assert.doesNotMatch(text(address, changes), /\d problem/);
  });
}

for (
  const [title, address, pods, expected] of [
    [
      "held by two pods",
      "10.2.0.9",
      [pod("a", ["10.2.0.9"]), pod("b", ["10.2.0.9"], { node: "n2" })],
      /^10.2.0.9 is in use by Pod apps\/a and Pod apps\/b\n.*2 problems:\n {2}Pod apps\/a: has 10.2.0.9 on Node n1, and so has apps\/b on Node n2\n/s,
    ],
    [
      "of another node's block",
      "10.2.0.9",
      [pod("a", ["10.2.0.9"], { node: "n2" })],
      /1 problem:.*AddressBlock default-0 belongs to another node/s,
    ],
    [
      "in no block",
      "10.2.0.200",
      [pod("a", ["10.2.0.200"])],
      /1 problem:.*in no AddressBlock: another pod may get it/s,
    ],
    [
      "in a block without node",
      "10.2.0.40",
      [],
      /1 problem:\n {2}AddressBlock default-1: its Node "gone" does not exist/,
    ],
  ] as const
) {
  Deno.test(`an address ${title} is a problem`, () => {
    assert.match(text(address, { pods }), expected);
  });
}

Deno.test("a pod that ends is named, and is no second holder", () => {
  const pods = [
    pod("old", ["10.2.0.9"], { isEnding: true }),
    pod("new", ["10.2.0.9"]),
  ];
  const found = text("10.2.0.9", { pods });
  assert.match(found, /in use by Pod apps\/old \(ending\) and Pod apps\/new\n/);
  assert.doesNotMatch(found, /\d problem/);
});

Deno.test("of a pod with two addresses each is looked at alone", () => {
  const both = pod("web", ["10.2.0.9", "fd77::9"]);
  assert.doesNotMatch(text("10.2.0.9", { pods: [both] }), /\d problem/);
});

Deno.test("an address of the VPC is explained by the ENI that has it", () => {
  const vpcNode: VpcNode = {
    ...newVpcNode({ name: "n1", uid: "u" }),
    status: {
      enis: [{
        id: "eni-1",
        device: 0,
        subnet: "subnet-1",
        blocks: ["10.9.0.16/28"],
        used: 1,
        cooling: 0,
        free: 15,
      }],
    },
  };
  const blocks = vpcBlocksOf(vpcNode);
  assert.equal(
    text("10.9.0.17", { blocks, pods: [pod("web", ["10.9.0.17"])] }),
    `10.9.0.17 is in use by Pod apps/web
  Pod apps/web on Node n1, Running, for 60m
  eni-1/10.9.0.16/28 of the VPC, on Node n1
`,
  );
  assert.match(
    text("10.9.0.18", { blocks }),
    /^10\.9\.0\.18 is free: no pod has it; the next one on Node n1 may get it\n/,
  );
});
