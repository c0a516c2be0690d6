/**
 * The CNI plugin `coordinator`: joins each interface of a pod to its host,
 * after the plugin that made it. Spiderpool's configuration; the kernel is the
 * only store.
 *
 * @module
 */
export type { Given } from "./config/config.ts";
export type {
  Filters,
  Outside,
  ProbedNic,
  Probes,
  Routes,
} from "./kernel/ports.ts";
export { type CoordinatorCall, runCoordinator } from "./run.ts";
