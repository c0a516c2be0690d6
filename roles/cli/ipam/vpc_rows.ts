import {
  type AddressCounts,
  conditionOf,
  type VpcNode,
  type VpcNodeStatus,
} from "../../../lib/api/mod.ts";
import { type Family, Prefix } from "../../../lib/inet/mod.ts";
import { VPC_POOL } from "../../../lib/names/mod.ts";
import type { PoolRow } from "./rows.ts";

/** Addresses of a block of a VPC, by what a node asks EC2 for. */
const VPC_BLOCK_SIZES = { address: 1, prefix: 16 } as const;

/**
 * The row of pool `vpc`, which is not an object: what nodes have of it, and what their instances may have. None without
 * such nodes. Addresses of nodes with both families count as IPv4.
 */
export function vpcPoolRows(nodes: readonly VpcNode[]): PoolRow[] {
  const known = nodes.flatMap(({ status }) => status ?? []);
  if (known.length === 0) return [];
  const all = known.map(countsOf);
  const sizes = new Set(all.map(({ blockSize }) => blockSize));
  const sum = (numbers: readonly number[]) =>
    numbers.reduce((sum, number) => sum + number, 0);
  const total = sum(all.map(({ blocks }) => blocks));
  const allocated = sum(all.map(({ held }) => held));
  const free = Math.max(0, total - allocated);
  const addressesOf = (family: Family) => {
    const own = all.filter((node) => node.family === family);
    if (own.length === 0) return {};
    const total = sum(own.map(({ capacity }) => capacity));
    const held = sum(own.map(({ addresses }) => addresses));
    const counts: AddressCounts = {
      total: `${total}`,
      allocated: `${held}`,
      free: `${Math.max(0, total - held)}`,
    };
    return { [family]: counts };
  };
  const ready = known.map(({ conditions }) => conditionOf(conditions, "Ready"));
  const failed = ready.find((condition) => condition?.status === "False");
  const [size] = sizes;
  // A block of IPv6 has more addresses than a node has pods.
  const isFull = free === 0 && all.some(({ family }) => family === "ipv4");
  return [{
    name: VPC_POOL,
    subnets: [],
    nodes: known.length,
    ...(sizes.size === 1 ? { blockSize: `${size}` } : {}),
    blocks: { total, allocated, free },
    ...addressesOf("ipv4"),
    ...addressesOf("ipv6"),
    state: failed?.reason ?? (isFull ? "Full" : "Available"),
    message: failed?.message ?? "",
  }];
}

/** What one node has, and has room for. */
function countsOf({ mode = "address", addresses, enis = [] }: VpcNodeStatus) {
  const held = enis.flatMap(({ blocks }) => blocks)
    .flatMap((text) => Prefix.tryParse(text) ?? []);
  const { capacity = 0 } = addresses ?? {};
  // With IPv6 alone a node has one block, however many pods it has room for.
  const ipv6 = held.find(({ family }) => family === "ipv6");
  const blockSize = ipv6 ? Number(ipv6.size) : VPC_BLOCK_SIZES[mode];
  return {
    family: ipv6 ? "ipv6" : "ipv4",
    blockSize,
    // Whole ones: what a node says may be anything.
    blocks: Math.floor(capacity / blockSize),
    held: held.length,
    capacity,
    addresses: held.reduce((sum, { size }) => sum + Number(size), 0),
  };
}
