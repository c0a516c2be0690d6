import * as path from "node:path";
import { cacheDir } from "../../deploy/host/mod.ts";

export { cacheDir, lockFile, tryLockFile } from "../../deploy/host/mod.ts";

/** Kubernetes release of the control plane that the tests run against. */
export const KUBERNETES_VERSION = "v1.35.4";

/** Directory of everything the lab builds, downloads or runs; never inside the tree. */
export function labDir(): string {
  return path.join(cacheDir(), "lab");
}

/** Directory of the executables etcd, kube-apiserver, kube-controller-manager and kubectl. */
export function binDir(): string {
  return path.join(labDir(), "bin", KUBERNETES_VERSION);
}
