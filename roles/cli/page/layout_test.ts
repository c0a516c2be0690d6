import assert from "node:assert/strict";
import { block, pod, pool, vpcNode } from "../../../lib/ipam/audit/testing.ts";
import { type BlockView, poolEntries, type PoolView } from "../ui/view.ts";
import {
  LABEL_HEIGHT,
  layoutOf,
  lookAt,
  looksOf,
  moved,
  type MoveKey,
  nextPlace,
  PITCH,
  type Place,
  placeAt,
  type Tile,
  tilesBetween,
} from "./layout.ts";

const BLOCKS = [
  block(["default", 0, "n1"], { ipv4: "10.2.0.0/27" }),
  block(["default", 1, "n2"], { ipv4: "10.2.0.32/27" }),
  block(["default", 5, "n2"], { ipv4: "10.2.0.160/27" }),
  block(["default", 8, "n1"], { ipv4: "10.9.0.0/27" }),
];

const PODS = [
  pod("web", "n1", { ipv4: "10.2.0.9" }),
  pod("twin-a", "n2", { ipv4: "10.2.0.33" }),
  pod("twin-b", "n2", { ipv4: "10.2.0.33" }),
];

/** The pool as the page gets it. */
function read(
  object = pool("default", [{ ipv4: "10.2.0.0/24" }, { ipv4: "10.9.0.0/27" }]),
  objects = BLOCKS,
  pods = PODS,
): { readonly pool: PoolView; readonly blocks: BlockView[] } {
  return viewsOf({ pools: [object], blocks: objects, pods });
}

function viewsOf(source: Parameters<typeof poolEntries>[0]) {
  const entries = [...poolEntries(source)]
    .map(([key, json]) => [key, JSON.parse(json)] as const);
  const [, view] = entries.find(([key]) => key.startsWith("pool/")) ?? [];
  const blocks = entries.filter(([key]) => key.startsWith("block/"));
  return { pool: view, blocks: blocks.map(([, each]) => each) };
}

const { pool: POOL, blocks: VIEWS } = read();
/** Two tiles in a row. */
const LAYOUT = layoutOf(POOL, VIEWS, 400);

const nameOf = (tile: Tile) =>
  tile.kind === "block" ? tile.block.name : tile.blocks;

Deno.test("layoutOf() has the blocks of each ENI of a VPC, single addresses and prefixes", () => {
  const { pool, blocks } = viewsOf({
    pools: [],
    blocks: [],
    pods: [pod("web", "n1", { ipv4: "10.0.1.17" })],
    vpcNodes: [
      vpcNode("n1", [["10.0.1.5/32", "10.0.1.6/32"], ["10.0.1.16/28"], []]),
    ],
  });
  const layout = layoutOf(pool, blocks, 400);
  assert.deepEqual(layout.bands.map(({ title }) => title), [
    "eni-n10 on n1, device 0: subnet-1",
    "eni-n11 on n1, device 1: subnet-1",
    "eni-n12 on n1, device 2: subnet-1",
  ]);
  assert.deepEqual(layout.tiles.map(nameOf), [
    "eni-n10/10.0.1.5/32",
    "eni-n10/10.0.1.6/32",
    "eni-n11/10.0.1.16/28",
  ]);
  const [, single, prefix] = layout.tiles;
  assert.ok(single !== undefined && prefix !== undefined);
  assert.ok(prefix.y > single.y, "an ENI is below the one before");
  // The second address of the prefix; a single address has no second one.
  const second = ({ x, y }: Tile) =>
    placeAt(layout, x + PITCH + 1, y + LABEL_HEIGHT + 1);
  assert.deepEqual(second(prefix), { block: "eni-n11/10.0.1.16/28", place: 1 });
  assert.equal(second(single), undefined);
});

Deno.test("layoutOf() has each subnet's blocks in their order, and what is free between them", () => {
  assert.deepEqual(LAYOUT.bands.map(({ title }) => title), [
    "10.2.0.0/24, 8 blocks",
    "10.9.0.0/27, 1 block",
  ]);
  assert.deepEqual(LAYOUT.tiles.map(nameOf), [
    ...["default-0", "default-1", 3, "default-5", 2],
    "default-8",
  ]);
  const columns = new Set(LAYOUT.tiles.map(({ x }) => x));
  assert.equal(columns.size, 2);
  const rows = new Set(LAYOUT.tiles.map(({ y }) => y));
  assert.equal(rows.size, 4);
  assert.ok(LAYOUT.tiles.every(({ y }) => y + LAYOUT.height <= LAYOUT.total));
});

Deno.test("tilesBetween() has what is seen, also in part", () => {
  const [first, , third] = LAYOUT.tiles;
  const names = (top: number, bottom: number) =>
    tilesBetween(LAYOUT, top, bottom).map(nameOf);
  assert.deepEqual(names(0, first?.y ?? 0), ["default-0", "default-1"]);
  const top = (first?.y ?? 0) + LAYOUT.height;
  assert.deepEqual(names(top, top), ["default-0", "default-1"]);
  assert.deepEqual(names(top + 1, (third?.y ?? 0) + 1), [3, "default-5"]);
  assert.equal(names(0, LAYOUT.total).length, LAYOUT.tiles.length);
});

Deno.test("layoutOf() of a pool of millions of blocks has few tiles", () => {
  const huge = pool("huge", [{ ipv6: "fd00::/96" }]);
  const { pool: view, blocks } = read(huge, [
    block(["huge", 1_000_000, "n1"], { ipv6: "fd00::1e8:4800/123" }),
  ], []);
  const { tiles } = layoutOf(view, blocks, 400);
  assert.deepEqual(tiles.map(nameOf), [
    1_000_000,
    "huge-1000000",
    2 ** 27 - 1_000_001,
  ]);
});

Deno.test("looksOf() says what is in use, reserved and wrong", () => {
  const object = pool("default", [{ ipv4: "10.2.0.0/24" }]);
  const reserved = ["10.2.0.1-10.2.0.2", "10.2.0.9"];
  const { blocks } = read({ ...object, spec: { ...object.spec, reserved } });
  const [first, second] = blocks.map(looksOf);
  const places = (looks: readonly string[] | undefined, look: string) =>
    looks?.flatMap((each, n) => each === look ? [n] : []);
  assert.deepEqual(places(first, "reserved"), [1, 2]);
  assert.deepEqual(places(first, "used"), [9]);
  assert.deepEqual(places(second, "odd"), [1]);
  assert.equal(places(second, "free")?.length, 31);
});

Deno.test("looksOf() shows what is wrong, whichever pod comes last", () => {
  const dual = { ipv4: "10.2.0.0/24", ipv6: "fd02::/120" };
  const { blocks } = read(
    pool("default", [dual]),
    [block(["default", 0, "n1"], { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" })],
    [
      pod("moved", "n2", { ipv4: "10.2.0.5", ipv6: "fd02::b" }),
      pod("web", "n1", { ipv4: "10.2.0.11" }),
    ],
  );
  const [looks] = blocks.map(looksOf);
  assert.deepEqual([looks?.[5], looks?.[11], looks?.[12]], [
    "odd",
    "odd",
    "free",
  ]);
});

Deno.test("lookAt() says the same of each address, and of those of a block with 2^64", () => {
  const object = pool("default", [{ ipv4: "10.2.0.0/24" }]);
  const reserved = ["10.2.0.1-10.2.0.2", "10.2.0.9"];
  const { blocks } = read({ ...object, spec: { ...object.spec, reserved } });
  for (const each of blocks) {
    const looks = looksOf(each);
    assert.deepEqual(looks.map((_, place) => lookAt(each, place)), looks);
  }
  const wide = pool("wide", [{ ipv6: "fd00::/48" }]);
  const { blocks: [huge] } = read(
    {
      ...wide,
      spec: { ...wide.spec, blockSizeBits: 64, reserved: ["fd00::/60"] },
    },
    [block(["wide", 0, "n1"], { ipv6: "fd00::/64" })],
    [pod("web", "n1", { ipv6: "fd00::5" })],
  );
  assert.ok(huge);
  assert.equal(lookAt(huge, 5), "used");
  assert.equal(lookAt(huge, 6), "reserved");
});

Deno.test("placeAt() finds the address under each cell, and none beside them", () => {
  for (const tile of LAYOUT.tiles) {
    for (let place = 0; place < 32; place++) {
      const x = tile.x + (place % 16) * PITCH + 1;
      const y = tile.y + LABEL_HEIGHT + Math.floor(place / 16) * PITCH + 1;
      const expected = tile.kind === "block"
        ? { block: tile.block.name, place }
        : undefined;
      assert.deepEqual(placeAt(LAYOUT, x, y), expected);
    }
    assert.equal(
      placeAt(LAYOUT, tile.x + 16 * PITCH + 3, tile.y + 20),
      undefined,
    );
  }
  assert.equal(placeAt(LAYOUT, 1, 1), undefined);
});

const place = (name: string, n: number): Place => ({
  block: `default-${name}`,
  place: n,
});

const MOVES: readonly (readonly [Place | undefined, MoveKey, Place])[] = [
  [undefined, "ArrowDown", place("0", 0)],
  [undefined, "End", place("8", 31)],
  [{ block: "gone", place: 3 }, "ArrowLeft", place("0", 0)],
  [place("0", 0), "ArrowLeft", place("0", 0)],
  [place("0", 4), "ArrowRight", place("0", 5)],
  [place("0", 31), "ArrowRight", place("1", 0)],
  [place("1", 0), "ArrowLeft", place("0", 31)],
  [place("8", 31), "ArrowRight", place("8", 31)],
  [place("0", 4), "ArrowDown", place("0", 20)],
  [place("0", 20), "ArrowUp", place("0", 4)],
  [place("0", 20), "ArrowDown", place("5", 4)],
  [place("5", 4), "ArrowUp", place("1", 20)],
  [place("5", 20), "ArrowDown", place("8", 4)],
  [place("0", 4), "ArrowUp", place("0", 4)],
  [place("8", 20), "ArrowDown", place("8", 20)],
  [place("5", 9), "Home", place("0", 0)],
  [place("0", 0), "End", place("8", 31)],
  [place("5", 9), "PageUp", place("0", 9)],
  [place("5", 9), "PageDown", place("8", 9)],
];

for (const [from, key, to] of MOVES) {
  Deno.test(`moved() by ${key} from ${from?.block ?? "nothing"} ${from?.place ?? ""}`, () => {
    assert.deepEqual(moved(LAYOUT, from, key), to);
  });
}

Deno.test("a block of too many addresses is one place", () => {
  const object = {
    ...pool("large", [{ ipv4: "10.0.0.0/16" }]),
    spec: { blockSizeBits: 10, subnets: [{ ipv4: "10.0.0.0/16" }] },
  };
  const { pool: view, blocks } = read(object, [
    block(["large", 0, "n1"], { ipv4: "10.0.0.0/22" }),
    block(["large", 1, "n1"], { ipv4: "10.0.4.0/22" }),
  ], []);
  const layout = layoutOf(view, blocks, 1_000);
  assert.equal(layout.columns, 0);
  const first = { block: "large-0", place: 0 };
  const [tile] = layout.tiles;
  assert.deepEqual(
    placeAt(layout, (tile?.x ?? 0) + 100, (tile?.y ?? 0) + 20),
    first,
  );
  assert.deepEqual(moved(layout, first, "ArrowRight"), {
    block: "large-1",
    place: 0,
  });
});

Deno.test("nextPlace() goes on from a place, and from the start again", () => {
  const all = () => true;
  const first = place("0", 9);
  const second = place("1", 1);
  assert.deepEqual(nextPlace(VIEWS, undefined, all), first);
  assert.deepEqual(nextPlace(VIEWS, first, all), second);
  assert.deepEqual(nextPlace(VIEWS, second, all), first);
  assert.deepEqual(nextPlace(VIEWS, place("0", 8), all), first);
  const isOdd = (view: BlockView, n: number) => looksOf(view)[n] === "odd";
  assert.deepEqual(nextPlace(VIEWS, undefined, isOdd), second);
  assert.equal(nextPlace(VIEWS, undefined, () => false), undefined);
});
