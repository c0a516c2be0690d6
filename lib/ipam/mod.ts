/**
 * Addresses: who holds which one on a node, the blocks they are from, and the pools that blocks are carved from.
 *
 * What changes outside is reached through the interfaces of `ports.ts`; nothing here knows Kubernetes or the kernel.
 *
 * @module
 */
export type { AddressState } from "./attachment.ts";
export type { BlockChanges } from "./block_view.ts";
export * from "./errors.ts";
export type { HeldBlock, Hold } from "./held_block.ts";
export type {
  Allocation,
  AllocationRequest,
  Releasing,
} from "./allocations.ts";
export {
  NodeIpam,
  type NodeIpamOptions,
  type ReconcileReport,
} from "./node_ipam.ts";
export type { BlockRecord, PoolStats } from "./node_stats.ts";
export * from "./ports.ts";
export type {
  AllocationRecord,
  DuplicateAddress,
  PodReport,
} from "./reconcile.ts";
export { overlapReport, poolOverlaps } from "./overlap_report.ts";
export type { PoolOverlap } from "./overlaps.ts";
export type { Span } from "./shared_range.ts";
export { DEFAULT_WATER_MARKS, type WaterMarks } from "./water_marks.ts";
export {
  type BlockStore,
  type CarveOptions,
  type Creation,
  type PoolCounts,
  PoolManager,
  type PoolManagerOptions,
} from "./pool_manager.ts";
