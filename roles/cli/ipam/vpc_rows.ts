import { conditionOf, type VpcNode } from "../../../lib/api/mod.ts";
import { Prefix } from "../../../lib/inet/mod.ts";
import { VPC_POOL } from "../../../lib/names/mod.ts";
import type { PoolRow } from "./rows.ts";

/** Addresses of a block of a VPC, by what a node asks EC2 for. */
const VPC_BLOCK_SIZES = { address: 1, prefix: 16 } as const;

/** The row of pool `vpc`, which is not an object: what nodes have of it, and what their instances may have. None without such nodes. */
export function vpcPoolRows(nodes: readonly VpcNode[]): PoolRow[] {
  const known = nodes.flatMap(({ status }) => status ?? []);
  if (known.length === 0) return [];
  const sizes = new Set(known.flatMap(({ mode }) => mode ?? []));
  const total = { blocks: 0, allocated: 0, addresses: 0, held: 0 };
  for (const { mode, addresses, enis = [] } of known) {
    const held = enis.flatMap(({ blocks }) => blocks)
      .flatMap((text) => Prefix.tryParse(text) ?? []);
    const { capacity = 0 } = addresses ?? {};
    // Whole ones: what a node says may be anything.
    total.blocks += Math.floor(capacity / VPC_BLOCK_SIZES[mode ?? "address"]);
    total.allocated += held.length;
    total.addresses += capacity;
    total.held += held.reduce((sum, { size }) => sum + Number(size), 0);
  }
  const free = Math.max(0, total.blocks - total.allocated);
  const ready = known.map(({ conditions }) => conditionOf(conditions, "Ready"));
  const failed = ready.find((condition) => condition?.status === "False");
  const [size] = sizes;
  return [{
    name: VPC_POOL,
    subnets: [],
    nodes: known.length,
    ...(size !== undefined && sizes.size === 1
      ? { blockSize: `${VPC_BLOCK_SIZES[size]}` }
      : {}),
    blocks: { total: total.blocks, allocated: total.allocated, free },
    ipv4: {
      total: `${total.addresses}`,
      allocated: `${total.held}`,
      free: `${Math.max(0, total.addresses - total.held)}`,
    },
    state: failed?.reason ?? (free === 0 ? "Full" : "Available"),
    message: failed?.message ?? "",
  }];
}
