import type { AddressRow } from "../../../lib/ipam/audit/mod.ts";
import { Prefix } from "../../../lib/inet/mod.ts";
import { addressColumns } from "../ipam/tables.ts";
import { formatTable } from "../base/table.ts";
import { blocksByEni } from "./eni_blocks.ts";
import { type Cell, formatGrid, paint } from "./grid.ts";
import {
  type BlockMap,
  type EniMap,
  type PoolMap,
  positionsOf,
  type SubnetMap,
} from "./pool_map.ts";

/** A block by how many of its addresses are in use: less than a seventh, …, all. */
const FILLED = "▁▂▃▄▅▆▇█";

const BAD: Cell = { sign: "!", colour: "bad" };
const RESERVED: Cell = { sign: "r", colour: "tight" };

const UNUSED = "addresses unused";

/** From this share on a block is nearly full. */
const TIGHT = 0.8;

const LEGEND = `· free   ▁ … █ a block by its use, █ an address in use
d deleting   r reserved   ! not as it should be
`;

/** Without ages: a picture changes only when something else does. */
const ODD_COLUMNS = addressColumns(new Date(0))
  .filter(({ header }) => header !== "AGE");

export interface PictureOptions {
  readonly colours: boolean;
}

/** Draws the blocks of each subnet, then the addresses of each block. */
export function formatMap(map: PoolMap, options: PictureOptions): string {
  const rows = map.blocks.flatMap(({ addresses }) => addresses);
  const odd = [...rows, ...map.outside].filter(isOdd);
  const byEni = blocksByEni(map.blocks);
  return [
    headline(map),
    ...map.subnets.map((subnet) => formatSubnet(map, subnet, options)),
    ...map.enis === undefined
      ? map.blocks.map((block) => formatBlock(block, options))
      : map.enis.map((eni) => formatEni(eni, byEni.get(eni.id) ?? [], options)),
    ...odd.length === 0 ? [] : [
      paint("Not as it should be:\n", {
        colour: "bad",
        colours: options.colours,
      }) +
      formatTable(ODD_COLUMNS, odd),
    ],
    LEGEND,
  ].join("\n");
}

function headline({ pool, blocks, enis }: PoolMap): string {
  const { name, state, blockSize, blocks: counts } = pool;
  const used = blocks.reduce((sum, block) => sum + block.used, 0);
  const what = enis === undefined ? "AddressPool" : "Pool";
  // Nodes of a VPC have blocks of two sizes.
  const of = blockSize === undefined ? "" : ` of ${addressesText(blockSize)}`;
  return `${what} ${name}: ${state}. ${counts?.allocated} of ${counts?.total} blocks${of} are allocated, ${counts?.free} free; pods use ${
    addressesText(used)
  }.\n`;
}

function addressesText(count: number | string): string {
  return `${count} ${String(count) === "1" ? "address" : "addresses"}`;
}

function formatSubnet(
  { blocks, pool, outside }: PoolMap,
  { firstBlock, blocks: count, ...subnet }: SubnetMap,
  { colours }: PictureOptions,
): string {
  const size = BigInt(pool.blockSize ?? "1");
  // What a pod has of a block that does not exist is not free.
  const cells = new Map<bigint, Cell>(
    outside.flatMap((row) => positionsOf(subnet, row))
      .map((position) => [position / size, BAD]),
  );
  for (const block of blocks) {
    const place = block.index - firstBlock;
    if (place < 0 || place >= count) continue;
    cells.set(BigInt(place), cellOfBlock(block));
  }
  const texts = [subnet.ipv4, subnet.ipv6].filter((text) => text !== undefined);
  const network = Prefix.parse(texts[0] ?? "").address;
  return `${texts.join(" + ")}\n` + formatGrid(cells, {
    size: BigInt(count),
    label: (place) => network.offset(place * size).toString(),
    what: "blocks free",
    colours,
  });
}

function formatBlock(block: BlockMap, { colours }: PictureOptions): string {
  const { name, node, used, size = "0", state } = block;
  const more = state === "active" ? "" : `, ${state}`;
  const title = `${name} on ${node}: ${
    networksOf(block).join(" + ")
  }, ${used} of ${size} used${more}\n`;
  return title + formatAddresses(block, { colours });
}

/** An ENI and its blocks: its single addresses together, then each of its prefixes. */
function formatEni(
  { id, node, device, subnet, ipv6, cooling }: EniMap,
  own: readonly BlockMap[],
  { colours }: PictureOptions,
): string {
  const sum = (counts: number[]) => counts.reduce((a, b) => a + b, 0);
  const used = sum(own.map(({ used }) => used));
  const size = sum(own.map(({ size = "0" }) => Number(size)));
  const title = [
    `${id} on ${node}, device ${device}: ${subnet}`,
    ...ipv6 === undefined ? [] : [ipv6],
    `${used} of ${size} used`,
    ...cooling === 0 ? [] : [`${cooling} cooling`],
  ].join(", ");
  const singles = own.filter(({ size }) => size === "1");
  const cells = new Map(singles.flatMap((block, place) => {
    const cell = cellsOf(block).get(0n);
    return cell === undefined ? [] : [[BigInt(place), cell] as const];
  }));
  const grid = singles.length === 0 ? "" : formatGrid(cells, {
    size: BigInt(singles.length),
    label: (place) => singles[Number(place)]?.ipv4?.replace("/32", "") ?? "",
    what: UNUSED,
    colours,
  });
  const prefixes = own.filter(({ size }) => size !== "1")
    .map((block) => formatAddresses(block, { colours }));
  return `${title}\n${grid}${prefixes.join("")}`;
}

function formatAddresses(block: BlockMap, { colours }: PictureOptions): string {
  const [network = ""] = networksOf(block);
  const first = Prefix.tryParse(network)?.address;
  return formatGrid(cellsOf(block), {
    size: BigInt(block.size ?? "0"),
    label: (place) => first?.offset(place).toString() ?? "",
    what: UNUSED,
    colours,
  });
}

function networksOf({ ipv4, ipv6 }: BlockMap): string[] {
  return [ipv4, ipv6].filter((text) => text !== undefined);
}

/** What is at the places of a block. */
function cellsOf(block: BlockMap): Map<bigint, Cell> {
  const cells = new Map<bigint, Cell>(
    block.reserved.map((place) => [BigInt(place), RESERVED]),
  );
  for (const row of block.addresses) {
    for (const place of positionsOf(block, row)) {
      // Of two pods with one address either may come last.
      if (cells.get(place)?.colour !== "bad") {
        cells.set(place, cellOfAddress(row));
      }
    }
  }
  return cells;
}

function cellOfBlock(block: BlockMap): Cell {
  if (block.state === "unreadable" || block.addresses.some(isOdd)) {
    return BAD;
  }
  if (block.state === "deleting") return { sign: "d", colour: "tight" };
  if (block.state === "reserved") return RESERVED;
  const share = block.used / Number(block.size ?? 1);
  const level = share >= 1 ? 7 : Math.floor(share * 7);
  const colour = share >= TIGHT ? "tight" : "good";
  return { sign: FILLED[level] ?? "!", colour };
}

function cellOfAddress(row: AddressRow): Cell {
  return isOdd(row) ? BAD : { sign: "█", colour: "good" };
}

function isOdd({ state }: AddressRow): boolean {
  return state !== "ok";
}
