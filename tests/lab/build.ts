import * as path from "node:path";
import { binDir, KUBERNETES_VERSION, labDir, lockFile } from "./cache.ts";
import {
  type EnvtestArchive,
  envtestArchive,
  officialPrograms,
} from "./envtest.ts";
import { ensureGoProgram, type GoProgram, isBuilt } from "./go_build.ts";
import {
  CLUSTER_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  preparePackages,
} from "./packages.ts";

const CONTROL_PLANE: GoProgram = {
  output: "control-plane/",
  about: `the control plane of Kubernetes ${KUBERNETES_VERSION}`,
  packages: ["./controlplane", "./etcd", "./kubectl"],
  links: {
    "etcd": "control-plane/etcd",
    "kube-apiserver": "control-plane/controlplane",
    "kube-controller-manager": "control-plane/controlplane",
    "kubectl": "control-plane/kubectl",
  },
};
const NODE: GoProgram = {
  output: "coil-node",
  about:
    `kubelet, kube-proxy and scheduler of Kubernetes ${KUBERNETES_VERSION}`,
  packages: ["./node"],
  links: {
    "kubelet": "coil-node",
    "kube-proxy": "coil-node",
    "kube-scheduler": "coil-node",
  },
};
const POD_TOOL: GoProgram = {
  output: "podtool",
  about: "the program of the lab's pods",
  packages: ["./podtool"],
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
  const packages = CONTROL_PLANE_PACKAGES;
  await ensureGoPrograms([CONTROL_PLANE], { ...options, packages });
}

/**
 * As {@link ensureControlPlane}, with what real nodes need besides: kubelet, kube-proxy, scheduler, and the program
 * that the lab's pods run.
 */
export async function ensureCluster(
  options: { log?: Log } = {},
): Promise<void> {
  const programs = [CONTROL_PLANE, NODE, POD_TOOL];
  await ensureGoPrograms(programs, { ...options, packages: CLUSTER_PACKAGES });
}

/**
 * Makes sure of etcd, kube-apiserver and kubectl alone, and returns their directory: what
 * {@link ensureControlPlane} has built, else official binaries, else it builds.
 *
 * Official binaries are there in a minute, but of another patch release and without kube-controller-manager.
 */
export async function ensureApiServer(
  options: {
    log?: Log;
    /** Receives the reason when it builds; the log without it. */
    notice?: Log;
    archive?: EnvtestArchive;
  } = {},
): Promise<string> {
  const { archive = envtestArchive() } = options;
  const log = timed(options.log);
  const notice = options.notice ?? log;
  using _lock = await lockLab(log);
  await preparePackages(CONTROL_PLANE_PACKAGES, log);
  if (!await isBuilt(CONTROL_PLANE)) {
    const official = await officialPrograms(path.join(labDir(), "bin"), {
      archive,
      log,
      notice,
    });
    if (official !== undefined) return official;
    notice(
      `Kubernetes ${KUBERNETES_VERSION} is built from source instead, which takes minutes.`,
    );
  }
  await ensureGoProgram(CONTROL_PLANE, log);
  return binDir();
}

/** Installs the packages and builds programs of the Go module when they are missing. Two processes may call it at once. */
export async function ensureGoPrograms(
  programs: readonly GoProgram[],
  options: {
    readonly packages?: Readonly<Record<string, string>>;
    readonly log?: Log;
  },
): Promise<void> {
  const { packages = {} } = options;
  const log = timed(options.log);
  using _lock = await lockLab(log);
  await preparePackages(packages, log);
  for (const program of programs) await ensureGoProgram(program, log);
}

/** Keeps other runs from preparing the lab as well. */
async function lockLab(log: Log): Promise<Disposable> {
  await Deno.mkdir(binDir(), { recursive: true });
  return await lockFile(path.join(labDir(), "build.lock"), {
    onWait: () => log("waiting for another run that prepares the lab"),
  });
}

/** With the seconds since now before each line. */
function timed(log: Log | undefined): Log {
  const started = performance.now();
  return (line) => {
    const seconds = Math.round((performance.now() - started) / 1000);
    log?.(`[${seconds} s] ${line}`);
  };
}
