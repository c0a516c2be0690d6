import type { BlockView, PoolView } from "../ui/view.ts";
import { blocksByEni } from "../map/eni_blocks.ts";
import type { SubnetMap } from "../map/pool_map.ts";
import { counted } from "./text.ts";

/** A place in the map of a pool: one address, in both families, of a block. */
export interface Place {
  readonly block: string;
  readonly place: number;
}

/** How an address looks. */
export const LOOKS = ["free", "used", "reserved", "odd"] as const;
export type Look = typeof LOOKS[number];

/** One block, or neighbours that no node has. */
export type Tile = Item & { readonly x: number; readonly y: number };

/** The tiles of one of the pool's subnets or ENIs, below its title. */
export interface Band {
  readonly title: string;
  readonly y: number;
}

/** Where everything of a pool is, in CSS pixels. */
export interface Layout {
  readonly bands: readonly Band[];
  /** From top to bottom, from left to right. */
  readonly tiles: readonly Tile[];
  /** Cells of a block in one line; 0 when a block has too many to show each. */
  readonly columns: number;
  readonly width: number;
  readonly height: number;
  readonly total: number;
}

/** From one cell to the next. */
export const PITCH = 11;
export const CELL = 10;
export const TITLE_HEIGHT = 28;
/** Of the text above a block's cells. */
export const LABEL_HEIGHT = 18;
const GAP = 14;
/** From the left edge, for the frame of a chosen cell. */
export const INSET = 3;
/** Of a block whose addresses are not shown each. */
const BAR_WIDTH = 16 * PITCH;

/** The most addresses of a block that are cells of their own. */
const MAX_CELLS = 256;

/** Addresses in a block. */
export function sizeOf({ size = "1" }: { readonly size?: string }): number {
  return Number(size);
}

function columnsFor(size: number): number {
  if (size > MAX_CELLS) return 0;
  return Math.min(size, size > 64 ? 32 : 16);
}

/** Lays out a pool's subnets, blocks and addresses in so many pixels. Pure. */
export function layoutOf(
  pool: PoolView,
  blocks: readonly BlockView[],
  width: number,
): Layout {
  // Pool vpc may have single addresses and prefixes.
  const size = blocks.reduce(
    (most, block) => Math.max(most, sizeOf(block)),
    Number(pool.row.blockSize ?? "1"),
  );
  const columns = columnsFor(size);
  const tileWidth = Math.max(BAR_WIDTH, columns * PITCH);
  const lines = columns === 0 ? 1 : Math.ceil(size / columns);
  const tileHeight = LABEL_HEIGHT + lines * PITCH;
  const perRow = Math.max(
    1,
    Math.floor((width - INSET + GAP) / (tileWidth + GAP)),
  );
  const bands: Band[] = [];
  const tiles: Tile[] = [];
  let y = 0;
  for (const { title, items } of contentsOf(pool, blocks)) {
    bands.push({ title, y });
    y += TITLE_HEIGHT;
    items.forEach((item, n) =>
      tiles.push({
        ...item,
        x: INSET + (n % perRow) * (tileWidth + GAP),
        y: y + Math.floor(n / perRow) * (tileHeight + GAP),
      })
    );
    y += Math.ceil(items.length / perRow) * (tileHeight + GAP);
  }
  return {
    bands,
    tiles,
    columns,
    width: tileWidth,
    height: tileHeight,
    total: y,
  };
}

/** The pool's subnets, or the ENIs of pool `vpc`, with what is in each. */
function contentsOf(
  { subnets, enis = [] }: PoolView,
  blocks: readonly BlockView[],
): { readonly title: string; readonly items: readonly Item[] }[] {
  const byEni = blocksByEni(blocks);
  return [
    ...subnets.map((subnet) => ({
      title: titleOf(subnet),
      items: itemsOf(subnet, blocks),
    })),
    ...enis.map(({ id, node, device, subnet }) => ({
      title: `${id} on ${node}, device ${device}: ${subnet}`,
      items: (byEni.get(id) ?? []).map((block) =>
        ({ kind: "block", block }) as const
      ),
    })),
  ];
}

function titleOf({ ipv4, ipv6, blocks }: SubnetMap): string {
  const texts = [ipv4, ipv6].filter((text) => text !== undefined);
  return `${texts.join(" + ")}, ${counted(blocks, "block")}`;
}

type Item =
  | { readonly kind: "block"; readonly block: BlockView }
  | { readonly kind: "gap"; readonly blocks: number };

/** The subnet's blocks, and what is free between them. */
function itemsOf(
  { firstBlock, blocks: count }: SubnetMap,
  blocks: readonly BlockView[],
): Item[] {
  const items: Item[] = [];
  let next = firstBlock;
  const skipTo = (index: number): void => {
    if (index > next) items.push({ kind: "gap", blocks: index - next });
  };
  for (const block of blocks) {
    const { index } = block;
    if (index < firstBlock || index >= firstBlock + count) continue;
    skipTo(index);
    items.push({ kind: "block", block });
    next = index + 1;
  }
  skipTo(firstBlock + count);
  return items;
}

/** Tiles that are between two heights. */
export function tilesBetween(
  { tiles, height }: Layout,
  top: number,
  bottom: number,
): Tile[] {
  return tiles.filter(({ y }) => y + height >= top && y <= bottom);
}

/** How each address of a block looks; something wrong hides nothing of it. */
export function looksOf(block: BlockView): Look[] {
  const looks = Array<Look>(sizeOf(block)).fill("free");
  for (const place of block.reserved) looks[place] = "reserved";
  for (const { places, state } of block.holders) {
    for (const place of places) {
      if (looks[place] !== "odd") {
        looks[place] = state === "ok" ? "used" : "odd";
      }
    }
  }
  return looks;
}

/** How one address of a block looks, which may have any number of them. */
export function lookAt({ reserved, holders }: BlockView, place: number): Look {
  const own = holders.filter(({ places }) => places.includes(place));
  if (own.some(({ state }) => state !== "ok")) return "odd";
  if (own.length > 0) return "used";
  return reserved.includes(place) ? "reserved" : "free";
}

/** The address at a point. */
export function placeAt(
  { tiles, columns, width, height }: Layout,
  x: number,
  y: number,
): Place | undefined {
  const tile = tiles.find((t) =>
    x >= t.x && x < t.x + width && y >= t.y && y < t.y + height
  );
  if (tile?.kind !== "block") return undefined;
  const { block } = tile;
  if (columns === 0) return { block: block.name, place: 0 };
  const column = Math.floor((x - tile.x) / PITCH);
  const line = Math.max(0, Math.floor((y - tile.y - LABEL_HEIGHT) / PITCH));
  const place = line * columns + column;
  return column < columns && place < sizeOf(block)
    ? { block: block.name, place }
    : undefined;
}

/** Keys that move in the map. */
export const MOVE_KEYS = [
  "ArrowLeft",
  "ArrowRight",
  "ArrowUp",
  "ArrowDown",
  "Home",
  "End",
  "PageUp",
  "PageDown",
] as const;
export type MoveKey = typeof MOVE_KEYS[number];

/** How many blocks a page has, for the keys. */
const PAGE = 10;

/** The address that a key leads to: beside, above or below, or that of another block. */
export function moved(
  layout: Layout,
  from: Place | undefined,
  key: MoveKey,
): Place | undefined {
  const blocks = layout.tiles.filter((tile) => tile.kind === "block");
  const at = blocks.findIndex(({ block }) => block.name === from?.block);
  const last = blocks.length - 1;
  const sizeAt = (n: number): number => {
    const block = blocks[n]?.block;
    return layout.columns === 0 || block === undefined ? 1 : sizeOf(block);
  };
  const to = (n: number, place: number): Place | undefined => {
    const index = Math.min(Math.max(n, 0), last);
    const block = blocks[index]?.block.name;
    if (block === undefined) return undefined;
    return { block, place: Math.min(Math.max(place, 0), sizeAt(index) - 1) };
  };
  const tile = blocks[at];
  if (key === "End") return to(last, Infinity);
  if (key === "Home" || from === undefined || tile === undefined) {
    return to(0, 0);
  }
  const { place } = from;
  const columns = Math.max(1, layout.columns);
  const goUp = key === "ArrowUp";
  switch (key) {
    case "PageUp":
      return to(at - PAGE, place);
    case "PageDown":
      return to(at + PAGE, place);
    case "ArrowLeft":
      return place > 0 || at === 0 ? to(at, place - 1) : to(at - 1, Infinity);
    case "ArrowRight":
      return place + 1 < sizeAt(at) || at === last
        ? to(at, place + 1)
        : to(at + 1, 0);
  }
  const next = place + (goUp ? -columns : columns);
  if (next >= 0 && next < sizeAt(at)) return to(at, next);
  const other = neighbour(blocks, tile, goUp);
  if (other < 0) return from;
  const lowest = Math.ceil(sizeAt(other) / columns) - 1;
  return to(other, (goUp ? lowest * columns : 0) + place % columns);
}

/** The nearest block above or below, of the nearest line that has one; -1 when there is none. */
function neighbour(
  blocks: readonly Tile[],
  from: Tile,
  isUp: boolean,
): number {
  const isBeyond = ({ y }: Tile) => isUp ? y < from.y : y > from.y;
  const distance = ({ x, y }: Tile) =>
    Math.abs(y - from.y) * 1e6 + Math.abs(x - from.x);
  let best = -1;
  blocks.forEach((tile, n) => {
    const other = blocks[best];
    if (!isBeyond(tile)) return;
    if (other === undefined || distance(tile) < distance(other)) best = n;
  });
  return best;
}

/** The first address of a pool after the given one that fits, from the start again at the end. */
export function nextPlace(
  blocks: readonly BlockView[],
  from: Place | undefined,
  isWanted: (block: BlockView, place: number) => boolean,
): Place | undefined {
  const all = blocks.flatMap((block) =>
    [...new Set(block.holders.flatMap(({ places }) => places))]
      .sort((a, b) => a - b)
      .filter((place) => isWanted(block, place))
      .map((place): Place => ({ block: block.name, place }))
  );
  const order = new Map(blocks.map(({ name }, n) => [name, n]));
  const isAfter = ({ block, place }: Place) => {
    if (from === undefined) return true;
    const difference = (order.get(block) ?? 0) - (order.get(from.block) ?? 0);
    return difference > 0 || difference === 0 && place > from.place;
  };
  return all.find(isAfter) ?? all[0];
}
