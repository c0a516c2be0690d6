/**
 * Coil's own Kubernetes resources, and Spiderpool's that Coil shares: their types as on the wire, parsed forms,
 * and the arithmetic of pools and blocks. Nothing here does I/O.
 *
 * @module
 */
export * from "./address_block.ts";
export * from "./address_pool.ts";
export * from "./block_count.ts";
export * from "./block_request.ts";
export * from "./condition.ts";
export * from "./egress.ts";
export * from "./egress_annotations.ts";
export * from "./egress_client_slice.ts";
export * from "./egress_conditions.ts";
export * from "./egress_destinations.ts";
export * from "./egress_objects.ts";
export * from "./egress_status.ts";
export * from "./pool.ts";
export * from "./pool_choice.ts";
export * from "./pool_forecast.ts";
export * from "./pool_status.ts";
export * from "./pool_usage.ts";
export * from "./reserved.ts";
export * from "./reserved_entries.ts";
export * from "./resources.ts";
export * from "./span.ts";
export * from "./spider_coordinator.ts";
