/**
 * The network of pods: veth pairs, addresses, routes. Plans are pure data; the
 * kernel is the only store.
 *
 * @module
 */
export { ChainedNetwork, type ChainedPod } from "./chained_network.ts";
export {
  IfnameMissingError,
  IfnameTakenError,
  LinkNameError,
  NetnsNotFoundError,
  PodCheckError,
} from "./base/errors.ts";
export type {
  CheckRequest,
  CutOff,
  InitReport,
  SeenLink,
  SeenTeardown,
  SetupRequest,
  SetupResult,
} from "./pods/calls.ts";
export { calicoVethName, hostVethName } from "./base/host_name.ts";
export type { EndLack } from "./host/host_end_state.ts";
export { type HostLack, HostProblem } from "./host/host_state.ts";
export {
  type DeletionSocket,
  type Husk,
  HuskReaper,
} from "./links/husk_reaper.ts";
export { isMarkedFor, linkLocalOf } from "./base/mac.ts";
export type { PodNetworkOptions } from "./plan/options.ts";
export { PodNetwork } from "./pod_network.ts";
export type { PodSources } from "./base/sources.ts";
export { SourceTable, SourceTableError } from "./host/source_table.ts";
export type { PodLink, Survey } from "./state/survey.ts";
export type { LinkAddresses, Upkeep, UpkeepPart } from "./upkeep.ts";
