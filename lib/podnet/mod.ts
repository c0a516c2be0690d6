/**
 * The network of pods: veth pairs, addresses, routes. Plans are pure data; the
 * kernel is the only store.
 *
 * @module
 */
export {
  formatAlias,
  formatHuskAlias,
  type LinkIdentity,
  parseAlias,
  type ParsedAlias,
  type PodKey,
} from "./alias.ts";
export {
  IfnameTakenError,
  NetnsNotFoundError,
  PodCheckError,
} from "./errors.ts";
export type {
  CheckRequest,
  InitReport,
  SetupRequest,
  SetupResult,
  Teardown,
} from "./calls.ts";
export { calicoVethName, hostVethName, type PodName } from "./host_name.ts";
export type { Husk } from "./husk_reaper.ts";
export { linkLocalOf, type RandomBytes, randomMac } from "./mac.ts";
export type { PodNetworkOptions } from "./options.ts";
export {
  type GatewayMode,
  type LinkStep,
  planPod,
  type PodPlan,
  type PodPlanInput,
  type RouteStep,
  type Step,
  type VethSpec,
} from "./plan.ts";
export { renderPlan } from "./plan_text.ts";
export { PodNetwork } from "./pod_network.ts";
export type { MalformedLink, PodLink, Survey } from "./survey.ts";
