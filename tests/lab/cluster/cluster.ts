import * as path from "node:path";
import { ensureCluster } from "../build.ts";
import { binDir, labDir } from "../cache.ts";
import { run } from "../command.ts";
import { ensureContainerd2 } from "../containerd.ts";
import { ControlPlane, type ControlPlaneOptions } from "../control_plane.ts";
import { GO_DAEMON_ENV } from "../go_env.ts";
import { spawnProcess } from "../process.ts";
import { eventually } from "../wait.ts";
import { ClusterNode } from "./node.ts";
import { POD_IMAGE } from "./node_files.ts";
import { packSmallImage } from "./oci_image.ts";

const READY_MS = 400_000;

/** How a cluster is started. */
export interface ClusterOptions extends ControlPlaneOptions {
  readonly nodes: number;
  /** Archives of images that all nodes have; that of the lab's pods comes by itself. */
  readonly images?: readonly string[];
  /** Pods that a node takes; 110 by default, as kubelet has it. */
  readonly maxPods?: number;
  /** Numbers of the nodes that run containerd 2 in place of Debian's. */
  readonly containerd2?: readonly number[];
}

/** A whole Kubernetes: control plane, scheduler, and nodes with kubelet, containerd and kube-proxy. */
export class Cluster implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly nodes: readonly ClusterNode[];

  private constructor(plane: ControlPlane, nodes: readonly ClusterNode[]) {
    this.plane = plane;
    this.nodes = nodes;
  }

  /** Starts it. Nodes get Ready when they have a network plugin. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    await ensureCluster(options.log === undefined ? {} : { log: options.log });
    await requireDisk(labDir());
    await using undo = new AsyncDisposableStack();
    const plane = undo.use(
      await ControlPlane.start({ ...options, controllerManager: true }),
    );
    await startScheduler(plane);
    const podImage = await packSmallImage({
      reference: POD_IMAGE,
      executable: path.join(binDir(), "podtool"),
      entrypoint: ["/podtool", "pause"],
    });
    const images = [podImage, ...options.images ?? []];
    const maxPods = options.maxPods ?? 110;
    const newer = options.containerd2 ?? [];
    const { directory: containerd } = newer.length > 0
      ? await ensureContainerd2()
      : { directory: "" };
    const nodes = Array.from({ length: options.nodes }, (_, i) => {
      const number = i + 1;
      return new ClusterNode(plane, {
        number,
        images,
        maxPods,
        ...(newer.includes(number) ? { containerd } : {}),
      });
    });
    await Promise.all(nodes.map((node) => node.boot()));
    undo.move();
    return new Cluster(plane, nodes);
  }

  /** Waits until kubelets say that all nodes are Ready. */
  async waitReady(): Promise<void> {
    await eventually("all nodes to be Ready", async () => {
      const list = parseNodes(await this.plane.request("GET", "/api/v1/nodes"));
      if (list.length === this.nodes.length && list.every(isReady)) return true;
      const found = list.map(({ metadata, status }) =>
        `${metadata?.name}: ${JSON.stringify(status?.conditions?.at(-1))}`
      );
      throw new Error(`nodes are ${found.join(", ")}`);
    }, { timeoutMs: READY_MS });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plane[Symbol.asyncDispose]();
  }
}

/** A node has views of its own of these. */
const NODE_DIRECTORIES = ["/etc", "/opt", "/run", "/var"];

/** Makes sure that nodes can have their disks in a directory. */
async function requireDisk(directory: string): Promise<void> {
  const real = await Deno.realPath(directory);
  const refuse = (why: string): never => {
    throw new Error(
      `Cannot keep nodes' disks in "${real}": ${why}; set COIL_CACHE to another directory`,
    );
  };
  if (NODE_DIRECTORIES.some((top) => real.startsWith(`${top}/`))) {
    refuse("nodes have their own /etc, /opt, /run and /var");
  }
  const type = await run("stat", ["--file-system", "--format=%T", real]);
  if (type.trim() === "overlayfs") refuse("it is an overlay already");
}

async function startScheduler(plane: ControlPlane): Promise<void> {
  const kubeconfig = await plane.kubeconfigFor({
    user: "system:kube-scheduler",
  });
  await spawnProcess({
    id: "kube-scheduler",
    runDir: plane.runDir,
    netns: plane.netns,
    command: path.join(binDir(), "kube-scheduler"),
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      "--bind-address=127.0.0.1",
      "--leader-elect=false",
      "--kube-api-qps=1000",
      "--kube-api-burst=2000",
      "--profiling=false",
    ],
    env: GO_DAEMON_ENV,
  });
}

interface NodeObject {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly conditions?: readonly { type: string; status: string }[];
  };
}

function parseNodes(list: unknown): readonly NodeObject[] {
  return (list as { items: readonly NodeObject[] }).items;
}

function isReady(node: NodeObject): boolean {
  return node.status.conditions?.some((c) =>
    c.type === "Ready" && c.status === "True"
  ) ?? false;
}
