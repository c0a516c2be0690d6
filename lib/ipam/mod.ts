/**
 * Addresses: who holds which one on a node, the blocks they are from, and the pools that blocks are allocated from.
 *
 * What changes outside is reached through the interfaces of `ports.ts`; nothing here knows Kubernetes or the kernel.
 *
 * @module
 */
export type { AddressState } from "./table/holder.ts";
export type { BlockChanges } from "./blocks/block_view.ts";
export * from "./base/errors.ts";
export type { HeldBlock, Hold } from "./table/held_block.ts";
export type {
  Allocation,
  AllocationRequest,
  Releasing,
} from "./node/allocations.ts";
export {
  NodeIpam,
  type NodeIpamOptions,
  type ReconcileReport,
} from "./node/ipam.ts";
export type { BlockRecord, PoolStats } from "./table/stats.ts";
export * from "./base/ports.ts";
export type {
  AllocationRecord,
  DuplicateAddress,
  PodReport,
} from "./node/reconcile.ts";
export { overlapReport, poolOverlaps } from "./pool/overlap_report.ts";
export type { PoolOverlap } from "./pool/overlaps.ts";
export type { Span } from "./pool/shared_range.ts";
export { DEFAULT_WATER_MARKS, type WaterMarks } from "./blocks/water_marks.ts";
export {
  type AllocateBlockOptions,
  type BlockStore,
  type Creation,
  type PoolCounts,
  PoolManager,
  type PoolManagerOptions,
} from "./pool/manager.ts";
