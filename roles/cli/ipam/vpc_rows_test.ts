import {
  addressRows,
  blockRows,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import assert from "node:assert/strict";
import { newVpcNode, vpcBlocksOf } from "../../../lib/api/mod.ts";
import { formatTable } from "../base/table.ts";
import { addressColumns, blockColumns, poolColumns } from "./tables.ts";
import { block, NOW, pod, vpcNode } from "../../../lib/ipam/audit/testing.ts";
import { vpcPoolRows } from "./vpc_rows.ts";

const NODES = [
  vpcNode("n1", [["10.0.1.5/32", "10.0.1.6/32"], ["10.0.1.7/32"]]),
  vpcNode("n2", [["10.0.1.8/32"]]),
  newVpcNode({ name: "young", uid: "u" }),
];

Deno.test("vpcPoolRows() sums up what nodes have, and what their instances have room for", () => {
  assert.equal(
    formatTable(poolColumns(NOW), vpcPoolRows(NODES)),
    `POOL   STATE       BLOCK SIZE   BLOCKS   FREE   NODES   IPV4 TOTAL   IPV4 FREE   AGE
vpc    Available   1            18       14     2       18           14          -
`,
  );
});

Deno.test("vpcPoolRows() counts prefixes by 16, and has no one size for both", () => {
  const addresses = { used: 0, cooling: 0, free: 0, capacity: 144 };
  const prefixes = vpcNode("n3", [["10.0.2.0/28"]], {
    mode: "prefix",
    addresses,
  });
  const [row] = vpcPoolRows([prefixes]);
  assert.equal(row?.blockSize, "16");
  assert.deepEqual(row?.blocks, { total: 9, allocated: 1, free: 8 });
  assert.deepEqual(row?.ipv4, { total: "144", allocated: "16", free: "128" });
  const odd = vpcNode("n4", [], {
    mode: "prefix",
    addresses: { ...addresses, capacity: 39 },
  });
  assert.equal(vpcPoolRows([odd])[0]?.blocks?.total, 2, "whole ones");
  const [both] = vpcPoolRows([...NODES, prefixes]);
  assert.equal(both?.blockSize, undefined);
  assert.equal(both?.blocks?.total, 27);
});

Deno.test("vpcPoolRows() counts addresses of nodes with IPv6 alone apart", () => {
  const counts = { used: 1, cooling: 0, free: 4_095, capacity: 4_096 };
  const ipv6 = vpcNode("n3", [["fd10:0:0:1:1::1000/116"]], {
    mode: "prefix",
    addresses: counts,
  });
  const [row] = vpcPoolRows([ipv6]);
  assert.equal(row?.blockSize, "4096");
  assert.deepEqual(row?.blocks, { total: 1, allocated: 1, free: 0 });
  assert.deepEqual([row?.state, row?.ipv4], ["Available", undefined]);
  const all = { total: "4096", allocated: "4096", free: "0" };
  assert.deepEqual(row?.ipv6, all);
  const [both] = vpcPoolRows([...NODES, ipv6]);
  assert.deepEqual([both?.ipv4?.total, both?.ipv6?.total], ["18", "4096"]);
  assert.equal(both?.blocks?.total, 19);
});

Deno.test("vpcPoolRows() says that all is given, or why pods of a node get no address", () => {
  const three = ["10.0.1.5/32", "10.0.1.6/32", "10.0.1.7/32"];
  const full = vpcNode("n1", [three, three, three]);
  assert.equal(vpcPoolRows([full])[0]?.state, "Full");
  const conditions = [{
    type: "Ready",
    status: "False",
    reason: "SubnetExhausted",
    message: "m",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  }] as const;
  const [row] = vpcPoolRows([...NODES, vpcNode("n4", [], { conditions })]);
  assert.deepEqual([row?.state, row?.message], ["SubnetExhausted", "m"]);
});

Deno.test("vpcPoolRows() has no pool without nodes that have told of theirs", () => {
  assert.deepEqual(vpcPoolRows([newVpcNode({ name: "n1", uid: "u" })]), []);
});

const PODS = [
  pod("web-1", "n1", { ipv4: "10.0.1.5" }),
  pod("lost", "n1", { ipv4: "10.0.1.99" }),
  pod("moved", "n1", { ipv4: "10.0.1.8" }),
  pod("other", "n9", { ipv4: "10.0.1.98" }),
];
const BLOCKS = [
  block(["default", 0, "n9"], { ipv4: "10.2.0.0/27" }),
  ...NODES.flatMap(vpcBlocksOf),
];

Deno.test("blockRows() shows what EC2 has granted beside other blocks, low devices first", () => {
  assert.equal(
    formatTable(blockColumns(NOW), blockRows(BLOCKS, PODS)),
    `BLOCK                 POOL      NODE   IPV4          IPV6   USED   SIZE   STATE    AGE
default-0             default   n9     10.2.0.0/27   -      0      32     active   5h
eni-n10/10.0.1.5/32   vpc       n1     10.0.1.5/32   -      1      1      active   -
eni-n10/10.0.1.6/32   vpc       n1     10.0.1.6/32   -      0      1      active   -
eni-n11/10.0.1.7/32   vpc       n1     10.0.1.7/32   -      0      1      active   -
eni-n20/10.0.1.8/32   vpc       n2     10.0.1.8/32   -      1      1      active   -
`,
  );
});

Deno.test("addressRows() finds addresses of the VPC in their blocks, and those in none", () => {
  const vpcNodes = new Set(["n1", "n2"]);
  const rows = addressRows({
    pods: PODS,
    blocks: readableBlocks(BLOCKS),
    pools: [],
    vpcNodes,
  });
  assert.equal(
    formatTable(addressColumns(NOW), rows, { wide: true }),
    `IPV4        IPV6   POD          NODE   BLOCK                 POOL   STATE        AGE
10.0.1.5    -      apps/web-1   n1     eni-n10/10.0.1.5/32   vpc    ok           60m
10.0.1.8    -      apps/moved   n1     eni-n20/10.0.1.8/32   vpc    other-node   60m
10.0.1.98   -      apps/other   n9     -                     -      foreign      60m
10.0.1.99   -      apps/lost    n1     -                     vpc    no-block     60m
`,
  );
});

Deno.test("blocks and addresses of the VPC are found by either family", () => {
  const node = vpcNode("n1", [["10.0.1.5/32", "10.0.1.16/28"]]);
  const [eni] = node.status?.enis ?? [];
  const enis = eni === undefined ? [] : [{ ...eni, ipv6: "fd00:1::/80" }];
  const blocks = vpcBlocksOf({ ...node, status: { ...node.status, enis } });
  assert.deepEqual(blocks.map(({ ipv6 }) => ipv6), [
    "fd00:1::a00:105/128",
    "fd00:1::a00:110/124",
  ]);
  const alone = vpcNode("n2", [["fd00:2::1000/116"]]);
  const [only] = vpcBlocksOf(alone);
  assert.deepEqual([only?.ipv4, only?.ipv6], [undefined, "fd00:2::1000/116"]);
  const pods = [
    pod("dual", "n1", { ipv4: "10.0.1.5", ipv6: "fd00:1::a00:105" }),
    pod("ipv6", "n1", { ipv6: "fd00:1::a00:111" }),
    pod("lost", "n1", { ipv6: "fd00:1::a00:199" }),
  ];
  assert.deepEqual(blockRows(blocks, pods).map(({ used }) => used), [1, 1]);
  const vpcNodes = new Set(["n1"]);
  const rows = addressRows({
    pods,
    blocks: readableBlocks(blocks),
    pools: [],
    vpcNodes,
  });
  assert.deepEqual(rows.map(({ pod, state }) => `${pod} ${state}`), [
    "dual ok",
    "ipv6 ok",
    "lost no-block",
  ]);
});

Deno.test("what a node says of IPv6 that cannot be read makes its blocks unreadable", () => {
  const node = vpcNode("n1", [["10.0.1.5/32"]]);
  const [eni] = node.status?.enis ?? [];
  for (const ipv6 of ["fd00::/97", "10.0.0.0/8", "x"]) {
    const enis = eni === undefined ? [] : [{ ...eni, ipv6 }];
    const blocks = vpcBlocksOf({ ...node, status: { ...node.status, enis } });
    assert.deepEqual(
      blockRows(blocks, []).map(({ state }) => state),
      ["unreadable"],
      ipv6,
    );
  }
});
