/**
 * Coil's own Kubernetes resources, and Spiderpool's that Coil shares: their types as on the wire, parsed forms,
 * and the arithmetic of pools and blocks. Nothing here does I/O.
 *
 * @module
 */
export * from "./block/address_block.ts";
export * from "./pool/address_pool.ts";
export * from "./pool/block_count.ts";
export * from "./block/block_request.ts";
export * from "./base/condition.ts";
export * from "./base/time.ts";
export * from "./egress/egress.ts";
export * from "./egress/egress_annotations.ts";
export * from "./egress/egress_client_slice.ts";
export * from "./egress/egress_conditions.ts";
export * from "./egress/egress_destinations.ts";
export * from "./egress/egress_losses.ts";
export * from "./egress/egress_objects.ts";
export * from "./egress/egress_status.ts";
export * from "./pool/pool.ts";
export * from "./pool/pool_capacity.ts";
export * from "./pool/pool_choice.ts";
export * from "./pool/pool_forecast.ts";
export * from "./pool/pool_status.ts";
export * from "./pool/pool_usage.ts";
export * from "./pool/reserved.ts";
export * from "./pool/reserved_entries.ts";
export * from "./resources.ts";
export * from "./pool/span.ts";
export * from "./spider_coordinator.ts";
export * from "./vpc_node.ts";
