import * as path from "node:path";
import { cacheDir } from "../../deploy/host/mod.ts";

export { cacheDir, lockFile } from "../../deploy/host/mod.ts";

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

/** Takes an exclusive lock between processes; undefined when another process has it. */
export async function tryLockFile(
  file: string,
): Promise<Disposable | undefined> {
  const handle = await Deno.open(file, { create: true, write: true });
  try {
    if (await handle.tryLock(true)) return handle;
  } catch (err) {
    handle.close();
    throw err;
  }
  handle.close();
  return undefined;
}
