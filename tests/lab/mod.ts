/** A real Kubernetes control plane for tests and demonstrations, with nodes that are network namespaces. */
export {
  type AuditedRequest,
  type AuditFilter,
  type AuditPolicy,
} from "./audit.ts";
export {
  ensureApiServer,
  ensureCluster,
  ensureControlPlane,
  type Log,
} from "./build.ts";
export { binDir, KUBERNETES_VERSION, labDir } from "./cache.ts";
export { cleanUp, keepLab, sweepLabs } from "./cleanup.ts";
export { CommandError, run, type RunOptions } from "./command.ts";
export {
  ControlPlane,
  type ControlPlaneOptions,
  type StartProcessOptions,
} from "./control_plane.ts";
export { removeLabAndExit, removeLabOnSignals } from "./interrupt.ts";
export {
  inNetns,
  type LabFamily,
  type LabNetwork,
  LabSubnet,
  listNetns,
} from "./network.ts";
export { LabNode } from "./node.ts";
export { LabProcess } from "./process.ts";
export { type ServiceAccountRef } from "./service_account.ts";
export { awaitedLater, eventually, sleep } from "./wait.ts";
