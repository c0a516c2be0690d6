/**
 * Whole-state synchronisation of routes: the node's blocks for routing
 * daemons, and direct routes to the blocks of other nodes.
 *
 * @module
 */
export type { RouteFailure, SyncResult } from "./apply.ts";
export { RouteExporter } from "./route_exporter.ts";
export {
  type GatewayRoute,
  type GatewayRoutes,
  type RouteChanges,
  RouteSyncer,
} from "./route_syncer.ts";
