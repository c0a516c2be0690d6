/**
 * Egress NAT over Foo-over-UDP tunnels: what a client pod needs so that chosen
 * destinations are reached through a gateway, and what a gateway needs. Plans
 * are pure data; applying one makes the kernel match it, whatever was there.
 *
 * @module
 */
export type {
  ClientGateway,
  ClientRequest,
  FailurePolicy,
  ShadowedDestination,
  SkippedDestination,
} from "./client_request.ts";
export { formatClientPlan } from "./client_format.ts";
export {
  BACKSTOP_METRIC,
  type ClientPlan,
  type ClientRoute,
  type ClientTunnel,
  planClient,
} from "./client_plan.ts";
export {
  applyClient,
  type ApplyOptions,
  clearClient,
  type ClientOptions,
  type ClientReport,
  isClient,
} from "./client_apply.ts";
export { GatewayNetnsError } from "./client_findings.ts";
export { inspectClient } from "./client_inspect.ts";
export {
  type ClientLimits,
  clientLimits,
  limitClients,
} from "./client_limits.ts";
export {
  type ConntrackUse,
  EgressServer,
  type ServerCounters,
} from "./egress_server.ts";
export type { ClientFlows, FlowSummary, PortUse } from "./flow_summary.ts";
export type { ClientInterface } from "./originating.ts";
export { prepareKernel } from "./kernel_modules.ts";
export type { ClientChange, SkippedClient } from "./server_clients.ts";
export { formatServerPlan } from "./server_format.ts";
export type { AppliedLimits } from "./server_limits.ts";
export type { ServerOptions } from "./server_kernel.ts";
export {
  planServer,
  SERVER_LINK_NAMES,
  type ServerFamily,
  type ServerLink,
  type ServerPlan,
  type ServerRequest,
  type ServerSysctl,
} from "./server_plan.ts";
