import assert from "node:assert/strict";
import {
  AGO,
  block,
  pod,
  pool,
  vpcNode,
} from "../../../lib/ipam/audit/testing.ts";
import { formatGrid } from "./grid.ts";
import { formatMap } from "./picture.ts";
import { type MapSource, type PoolMap, poolMaps } from "./pool_map.ts";

const POOL = pool("default", [
  { ipv4: "10.2.0.0/21", ipv6: "fd02::/117" },
  { ipv4: "10.9.0.0/27" },
]);

const BLOCKS = [
  block(["default", 0, "n1"], { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
  block(["default", 1, "n2"], { ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }),
  block(["default", 2, "n2"], { ipv4: "10.2.0.64/27", ipv6: "fd02::40/123" }, {
    deletionTimestamp: AGO(0),
  }),
  block(["default", 64, "n1"], { ipv4: "10.9.0.0/27" }),
  block(["other", 0, "n1"], { ipv4: "10.7.0.0/27" }),
];

const PODS = [
  ...Array.from(
    { length: 31 },
    (_, i) => pod(`full-${i}`, "n1", { ipv4: `10.9.0.${i}` }),
  ),
  pod("web", "n1", { ipv4: "10.2.0.9", ipv6: "fd02::9" }),
  pod("twin-a", "n2", { ipv4: "10.2.0.33" }),
  pod("twin-b", "n2", { ipv4: "10.2.0.33" }),
  pod("lost", "n2", { ipv4: "10.2.1.200" }),
  pod("other", "n1", { ipv4: "10.7.0.1" }),
];

function tryMapOf(name: string, source: MapSource): PoolMap | undefined {
  return poolMaps(source).find(({ pool }) => pool.name === name);
}

function mapOf(name: string, source: MapSource): PoolMap {
  const map = tryMapOf(name, source);
  assert.ok(map);
  return map;
}

const MAP = mapOf("default", { pools: [POOL], blocks: BLOCKS, pods: PODS });

Deno.test("formatMap() shows what spec.reserved keeps from pods, in use or not", () => {
  const reserved = ["10.2.0.1-10.2.0.3", "fd02::9", "10.9.0.0/28"];
  const object = { ...POOL, spec: { ...POOL.spec, reserved } };
  const source = { pools: [object], blocks: BLOCKS, pods: PODS };
  assert.match(
    formatMap(mapOf("default", source), { colours: false }),
    /^ {2}10\.2\.0\.0 {2}·rrr·····█·+$[^]*^ {2}10\.9\.0\.0 {2}█{31}·$/m,
  );
});

Deno.test("formatMap() draws blocks and addresses", () => {
  assert.equal(
    formatMap(MAP, { colours: false }),
    `AddressPool default: Available. 4 of 65 blocks of 32 addresses are allocated, 61 free; pods use 33 addresses.

10.2.0.0/21 + fd02::/117
  10.2.0.0  ▁!d···········!·················
  10.2.4.0  32 blocks free

10.9.0.0/27
  10.9.0.0  ▇

default-0 on n1: 10.2.0.0/27 + fd02::/123, 1 of 32 used
  10.2.0.0  ·········█······················

default-1 on n2: 10.2.0.32/27 + fd02::20/123, 1 of 32 used
  10.2.0.32  ·!······························

default-2 on n2: 10.2.0.64/27 + fd02::40/123, 0 of 32 used, deleting
  10.2.0.64  all 32 addresses unused

default-64 on n1: 10.9.0.0/27, 31 of 32 used
  10.9.0.0  ███████████████████████████████·

Not as it should be:
IPV4         IPV6   POD           NODE   BLOCK       STATE
10.2.0.33    -      apps/twin-a   n2     default-1   duplicate
10.2.0.33    -      apps/twin-b   n2     default-1   duplicate
10.2.1.200   -      apps/lost     n2     -           no-block

· free   ▁ … █ a block by its use, █ an address in use
d deleting   r reserved   ! not as it should be
`,
  );
});

Deno.test("formatMap() shows a full block and a nearly full one by sign and colour", () => {
  const pods = (count: number) =>
    Array.from(
      { length: count },
      (_, i) => pod(`p-${i}`, "n1", { ipv4: `10.9.0.${i}` }),
    );
  const blocks = [block(["default", 64, "n1"], { ipv4: "10.9.0.0/27" })];
  for (
    const [count, cell] of [
      [0, "\u001b[32m▁\u001b[0m"],
      [25, "\u001b[32m▆\u001b[0m"],
      [26, "\u001b[33m▆\u001b[0m"],
      [32, "\u001b[33m█\u001b[0m"],
    ] as const
  ) {
    const source = { pools: [POOL], blocks, pods: pods(count) };
    const picture = formatMap(mapOf("default", source), { colours: true });
    assert.ok(picture.includes(`10.9.0.0  ${cell}\n`), `${count}: ${picture}`);
  }
});

Deno.test("a map says who holds which address, and what is in no block", () => {
  const found = MAP.blocks.map(({ name, addresses }) => [
    name,
    addresses.map(({ pod }) => pod).slice(0, 2),
  ]);
  assert.deepEqual(found, [
    ["default-0", ["web"]],
    ["default-1", ["twin-a", "twin-b"]],
    ["default-2", []],
    ["default-64", ["full-0", "full-1"]],
  ]);
  assert.deepEqual(MAP.outside.map(({ pod }) => pod), ["lost"]);
});

Deno.test("a pool of more blocks than numbers hold is drawn in a few lines", () => {
  const huge = pool("huge", [{ ipv6: "fd00::/48" }, { ipv6: "fd01::/48" }]);
  const blocks = [block(["huge", 1000, "n1"], { ipv6: "fd00::7d00/123" })];
  const map = mapOf("huge", { pools: [huge], blocks, pods: [] });
  assert.deepEqual(map.subnets.map((subnet) => subnet.blocks), [2 ** 31, 0]);
  const picture = formatMap(map, { colours: false });
  assert.match(picture, /^ {2}fd00:: +992 blocks free$/m);
  assert.match(picture, /^ {2}fd00::7c00 +·{8}▁·{23}$/m);
  assert.match(picture, /^ {2}fd00::8000 +2147482624 blocks free$/m);
});

Deno.test("formatGrid() joins lines without anything in them, and leaves out what is beyond the end", () => {
  const cell = { sign: "x", colour: "good" } as const;
  const draw = (places: readonly bigint[]) =>
    formatGrid(new Map(places.map((place) => [place, cell])), {
      size: 100n,
      label: (place) => `@${place}`,
      what: "free",
      colours: false,
    });
  assert.equal(draw([]), "  @0  all 100 free\n");
  assert.equal(
    draw([99n, 100n, 200n]),
    "  @0   96 free\n  @96  ···x\n",
  );
  assert.equal(
    draw([0n, 64n]),
    `  @0   x${"·".repeat(31)}
  @32  32 free
  @64  x${"·".repeat(31)}
  @96  4 free
`,
  );
});

Deno.test("formatMap() draws pool vpc by ENI: single addresses together, prefixes each", () => {
  const singles = ["10.0.1.6/32", "10.0.1.9/32", "10.0.1.32/32"];
  const node = vpcNode("n1", [singles, ["10.0.1.16/28", "10.0.1.48/28"], []]);
  const [first, second, third] = node.status?.enis ?? [];
  assert.ok(first && second && third);
  const enis = [
    { ...first, cooling: 1 },
    { ...second, ipv6: "fd00:1::/80" },
    third,
  ];
  const source = {
    pools: [POOL],
    blocks: BLOCKS,
    pods: [
      ...PODS.filter(({ name }) => name === "web"),
      pod("one", "n1", { ipv4: "10.0.1.9" }),
      pod("two", "n1", { ipv4: "10.0.1.17", ipv6: "fd00:1::a00:111" }),
      pod("moved", "n2", { ipv4: "10.0.1.18", ipv6: "fd00:1::a00:112" }),
      pod("lost", "n1", { ipv4: "10.0.1.99" }),
    ],
    vpcNodes: [{ ...node, status: { ...node.status, enis } }],
  };
  assert.equal(
    formatMap(mapOf("vpc", source), { colours: false }),
    `Pool vpc: Available. 5 of 9 blocks of 1 address are allocated, 4 free; pods use 3 addresses.

eni-n10 on n1, device 0: subnet-1, 1 of 3 used, 1 cooling
  10.0.1.6  ·█·

eni-n11 on n1, device 1: subnet-1, fd00:1::/80, 2 of 32 used
  10.0.1.16  ·█!·············
  10.0.1.48  all 16 addresses unused

eni-n12 on n1, device 2: subnet-1, 0 of 0 used

Not as it should be:
IPV4        IPV6              POD          NODE   BLOCK                  STATE
10.0.1.18   fd00:1::a00:112   apps/moved   n2     eni-n11/10.0.1.16/28   other-node
10.0.1.99   -                 apps/lost    n1     -                      no-block

· free   ▁ … █ a block by its use, █ an address in use
d deleting   r reserved   ! not as it should be
`,
  );
  // Those of other pools do not change.
  assert.deepEqual(
    mapOf("default", source).blocks.flatMap(({ addresses }) => addresses)
      .map(({ pod, state }) => `${pod} ${state}`),
    ["web ok"],
  );
});

Deno.test("poolMaps() has no pool vpc where no node shows its VPC", () => {
  const source = { pools: [], blocks: [], pods: [] };
  assert.equal(tryMapOf("vpc", source), undefined);
  assert.equal(tryMapOf("vpc", { ...source, vpcNodes: [] }), undefined);
});

Deno.test("poolMaps() has ENIs by node, the lowest device first", () => {
  const nodes = ["n2", "n1"].map((name) => {
    const node = vpcNode(name, [[], []]);
    return {
      ...node,
      status: { ...node.status, enis: node.status?.enis?.toReversed() ?? [] },
    };
  });
  assert.deepEqual(
    tryMapOf("vpc", { pools: [], blocks: [], pods: [], vpcNodes: nodes })
      ?.enis?.map(({ node, device }) => `${node} ${device}`),
    ["n1 0", "n1 1", "n2 0", "n2 1"],
  );
});
