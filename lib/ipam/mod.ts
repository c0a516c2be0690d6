/**
 * Addresses: who holds which one on a node, the blocks they are from, and the pools that blocks are allocated from.
 *
 * What changes outside is reached through the interfaces of `ports.ts`; nothing here knows Kubernetes or the kernel.
 *
 * @module
 */
export * from "./base/errors.ts";
export type { Allocation, Releasing } from "./node/allocations.ts";
export { NodeIpam } from "./node/ipam.ts";
export type { NodeIpamOptions } from "./blocks/context.ts";
export * from "./base/ports.ts";
export type { BlockRecord } from "./table/stats.ts";
export type { AllocationRecord } from "./node/reconcile.ts";
export { overlapReport, poolOverlaps } from "./pool/overlap_report.ts";
export {
  DEFAULT_WATER_MARKS,
  type WaterMarks,
  waterStock,
} from "./blocks/stock.ts";
export {
  type AllocateBlockOptions,
  type BlockStore,
  type Creation,
  type PoolCounts,
  PoolManager,
} from "./pool/pool_manager.ts";
