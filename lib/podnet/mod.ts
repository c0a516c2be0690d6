/**
 * The network of pods: veth pairs, addresses, routes. Plans are pure data; the
 * kernel is the only store.
 *
 * @module
 */
export type { LinkIdentity } from "./alias.ts";
export {
  type Adopted,
  ChainedNetwork,
  type ChainedPod,
  type PlacedPod,
} from "./chained_network.ts";
export {
  IfnameMissingError,
  IfnameTakenError,
  NetnsNotFoundError,
  PodCheckError,
} from "./errors.ts";
export type {
  CheckRequest,
  InitReport,
  SeenLink,
  SeenTeardown,
  SetupRequest,
  SetupResult,
  Teardown,
} from "./calls.ts";
export { calicoVethName, hostVethName, type PodName } from "./host_name.ts";
export type { EndLack } from "./host_end_state.ts";
export type { HostReport } from "./host_init.ts";
export { type HostLack, HostProblem, lackText } from "./host_state.ts";
export type { Husk } from "./husk_reaper.ts";
export { isMarkedFor, linkLocalOf } from "./mac.ts";
export type { RandomBytes } from "../netlink/mod.ts";
export type { PodNetworkOptions } from "./options.ts";
export type { GatewayMode } from "./plan.ts";
export { PodNetwork } from "./pod_network.ts";
export type { PodSources } from "./sources.ts";
export {
  SourceTable,
  SourceTableError,
  type SourceTableOptions,
} from "./source_table.ts";
export type { MalformedLink, PodLink, Survey } from "./survey.ts";
export type { LinkAddresses, Upkeep, UpkeepPart } from "./upkeep.ts";
