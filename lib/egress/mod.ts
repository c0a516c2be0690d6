/**
 * Egress NAT over Foo-over-UDP tunnels: what a client pod needs so that chosen
 * destinations are reached through a gateway, and what a gateway needs. Plans
 * are pure data; applying one makes the kernel match it, from any state.
 *
 * @module
 */
export type {
  ClientGateway,
  ClientRequest,
  FailurePolicy,
  SkippedDestination,
} from "./plan/request.ts";
export {
  SERVICE_NAME_LABEL,
  transformEgress,
  transformService,
  transformSlice,
} from "./selection/objects.ts";
export {
  type EgressFacts,
  type EgressLookup,
  egressRefsOf,
  type GatewaySelection,
  type IsTaken,
  namesEgress,
  type Place,
  problemOf,
  selectGateways,
} from "./selection/selection.ts";
export { BACKSTOP_METRIC, type ClientPlan, planClient } from "./plan/plan.ts";
export { type WayOut, wayOut } from "./plan/way_out.ts";
export {
  applyChoices,
  applyClient,
  type ApplyOptions,
  clearClient,
  type ClientReport,
  isClient,
  type KnownChoices,
  listChoices,
} from "./client/apply.ts";
export { gatewayMark } from "./plan/choice.ts";
export {
  endConnections,
  type EndedConnections,
} from "./client/end_connections.ts";
export {
  type GatewayGroup,
  type GatewayLoss,
  GatewayProber,
} from "./probing/prober.ts";
export type { OpenProbeSocket } from "./probing/probe_line.ts";
export { GatewayNetnsError } from "./client/findings.ts";
export { inspectClient } from "./client/inspect.ts";
export {
  type ClientLimits,
  clientLimits,
  limitClients,
} from "./gateway_plan/client_limits.ts";
export { EgressServer, type ServerCounters } from "./gateway/server.ts";
export type {
  ClientFlows,
  FlowSummary,
  PortUse,
} from "./gateway/flow_summary.ts";
export { prepareKernel } from "./kernel/modules.ts";
export type { AppliedLimits } from "./gateway/limits.ts";
export {
  planServer,
  SERVER_LINK_NAMES,
  type ServerPlan,
  type ServerRequest,
} from "./gateway_plan/plan.ts";
