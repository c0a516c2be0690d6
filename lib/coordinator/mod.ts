/**
 * The CNI plugin `coordinator`: joins each interface of a pod to its host,
 * after the plugin that made it. Spiderpool's configuration; the kernel is the
 * only store.
 *
 * @module
 */
export {
  readDefaults,
  sharedIn,
  writeDefaults,
} from "./config/defaults_file.ts";
export {
  isLogged,
  type LogOptions,
  logOptionsOf,
} from "./config/log_options.ts";
export {
  documentOf,
  NOTHING_SHARED,
  readShared,
  type Shared,
  type SharedDocument,
} from "./config/shared.ts";
export { huskOf } from "./kernel/husks.ts";
export { machineOf, type Podnet } from "./kernel/machine.ts";
export { openPeers, type Peers } from "./kernel/peers.ts";
export type {
  NetworkProblem,
  Outside,
  PodArgs,
  Probes,
  Routes,
} from "./kernel/ports.ts";
export type { CoordinatorHusk } from "./plan/veth.ts";
export {
  countJoined,
  type HostLook,
  keepHost,
  keepPod,
} from "./upkeep/upkeep.ts";
export { type CoordinatorCall, runCoordinator } from "./run.ts";
