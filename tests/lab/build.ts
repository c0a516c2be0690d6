import * as path from "node:path";
import { binDir, KUBERNETES_VERSION, labDir, lockFile } from "./cache.ts";
import { ensureGoProgram, type GoProgram } from "./go_build.ts";
import {
  CLUSTER_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  preparePackages,
} from "./packages.ts";

const CONTROL_PLANE: GoProgram = {
  executable: "coil-control-plane",
  about: `the control plane of Kubernetes ${KUBERNETES_VERSION}`,
  directory: ".",
  files: ["main.go", "etcd.go"],
  names: ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"],
};
const NODE: GoProgram = {
  executable: "coil-node",
  about:
    `kubelet, kube-proxy and scheduler of Kubernetes ${KUBERNETES_VERSION}`,
  directory: "./node",
  files: ["node/main.go"],
  names: ["kubelet", "kube-proxy", "kube-scheduler"],
};
const POD_TOOL: GoProgram = {
  executable: "podtool",
  about: "the program of the lab's pods",
  directory: "./podtool",
  files: ["podtool/main.go"],
  names: [],
};

/** Receives one line of progress. */
export type Log = (line: string) => void;

/**
 * Installs the packages and builds the control plane that the API server tests need, when they are missing.
 *
 * Sources come from the Go module proxy; minutes when the build cache is cold, milliseconds when all is there.
 * Two processes may call it at once.
 * @throws {Error} when Go is missing or something fails, with the command's last words.
 */
export async function ensureControlPlane(
  options: { log?: Log } = {},
): Promise<void> {
  await ensure([CONTROL_PLANE], CONTROL_PLANE_PACKAGES, options);
}

/**
 * As {@link ensureControlPlane}, with what real nodes need besides: kubelet, kube-proxy, scheduler, and the program
 * that the lab's pods run.
 */
export async function ensureCluster(
  options: { log?: Log } = {},
): Promise<void> {
  const programs = [CONTROL_PLANE, NODE, POD_TOOL];
  await ensure(programs, CLUSTER_PACKAGES, options);
}

async function ensure(
  programs: readonly GoProgram[],
  packages: Readonly<Record<string, string>>,
  options: { log?: Log },
): Promise<void> {
  const started = performance.now();
  const log: Log = (line) => {
    const seconds = Math.round((performance.now() - started) / 1000);
    options.log?.(`[${seconds} s] ${line}`);
  };
  await Deno.mkdir(binDir(), { recursive: true });
  using _lock = await lockFile(path.join(labDir(), "build.lock"), {
    onWait: () => log("waiting for another run that prepares the lab"),
  });
  await preparePackages(packages, log);
  for (const program of programs) await ensureGoProgram(program, log);
}
