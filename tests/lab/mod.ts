/** A real Kubernetes control plane for tests and demonstrations, with nodes that are network namespaces. */
export type { AuditedRequest, AuditPolicy } from "./audit.ts";
export {
  ensureApiServer,
  ensureCluster,
  ensureControlPlane,
  type Log,
} from "./build.ts";
export { binDir, labDir } from "./cache.ts";
export { cleanUp, keepLab, sweepLabs } from "./cleanup.ts";
export { startCoilPlane } from "./coil_plane.ts";
export { CommandError, run } from "./command.ts";
export { ControlPlane } from "./control_plane.ts";
export { removeLabAndExit, removeLabOnSignals } from "./interrupt.ts";
export { assertSoon, assertWithin, lagWhile, writing } from "./lag.ts";
export { inNetns, type LabFamily, listNetns } from "./network.ts";
export { LabNode } from "./node.ts";
export { LabProcess } from "./process.ts";
export { atRest, awaitedLater, eventually, sleep } from "./wait.ts";
