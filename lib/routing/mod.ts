/**
 * Whole-state synchronisation of routes: the node's blocks for routing
 * daemons, and direct routes to the blocks of other nodes.
 *
 * @module
 */
export type {
  RouteFailure,
  RouteKernel,
  SyncResult,
  WantedRoute,
} from "./apply.ts";
export { RouteExporter, type RouteExporterOptions } from "./route_exporter.ts";
export {
  type GatewayRoute,
  type GatewayRoutes,
  type RouteChanges,
  RouteSyncer,
  type RouteSyncerOptions,
} from "./route_syncer.ts";
