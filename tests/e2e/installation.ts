// Coil on a real cluster, installed as a user does it.
import { buildImage } from "../../deploy/image/mod.ts";
import { ADDRESS_POOLS, type AddressPool } from "../../lib/api/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { Cluster, type ClusterNode } from "../lab/cluster/mod.ts";
import { startBirds } from "../lab/bird_sessions.ts";
import { ensureHelm } from "../lab/helm.ts";
import { type ControlPlane, run } from "../lab/mod.ts";
import { noteRights } from "../lab/rights_log.ts";
import { PodRunner } from "./pods.ts";

const DEPLOY = new URL("../../deploy", import.meta.url).pathname;
const NAMESPACE = "kube-system";
const ROLLOUT = "--timeout=300s";

/** Prefixes of the pool `default`; one of 2^15 blocks. */
export const POOL = { ipv4: "10.100.0.0/16", ipv6: "fd02:64::/112" } as const;
/** Blocks of 32 addresses. */
const BLOCK_SIZE_BITS = 5;

/**
 * An overlay by `kubectl apply -k`, or the chart by `helm template | kubectl apply`. Routes between the nodes are
 * coil-router's, but with `ipam`: there a BIRD on each node reads what coild exports.
 */
export type Way = "overlay router" | "overlay ipam" | "chart";

/** How an {@link Installation} is made. */
export interface InstallationOptions {
  /** Of the lab; each file of tests has its own. */
  readonly name: string;
  readonly nodes: number;
  /** Which of the ways to install is taken. */
  readonly by: Way;
  /** Numbers of the nodes that run containerd 2; others have Debian's 1.6. */
  readonly containerd2?: readonly number[];
}

/** A cluster that runs Coil from its image and its manifests, with routes between the nodes. */
export class Installation implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly client: KubeClient;
  readonly pods: PodRunner;
  /** What {@link Installation.rolledOut} waits for. */
  readonly workloads: readonly string[];

  private constructor(
    cluster: Cluster,
    { client, by }: { readonly client: KubeClient; readonly by: Way },
  ) {
    this.cluster = cluster;
    this.client = client;
    this.workloads = by === "overlay ipam"
      ? ["ds/coild", "deploy/coil-controller"]
      : ["ds/coild", "ds/coil-router", "deploy/coil-controller"];
    this.pods = new PodRunner(cluster.plane, client);
  }

  /** From nothing to a cluster whose nodes are Ready. */
  static async create(options: InstallationOptions): Promise<Installation> {
    const image = await buildImage({ compression: "none" });
    await using undo = new AsyncDisposableStack();
    const cluster = undo.use(
      await Cluster.start({
        ...options,
        images: [image.path],
        // What was asked of the API server in all of these tests is compared with the roles.
        audit: "metadata",
      }),
    );
    const { kubeconfig } = cluster.plane;
    const client = undo.use(await KubeClient.load({ kubeconfig }));
    const { by } = options;
    const installation = new Installation(cluster, { client, by });
    await installation.#install(by);
    undo.move();
    return installation;
  }

  get plane(): ControlPlane {
    return this.cluster.plane;
  }

  get nodes(): readonly ClusterNode[] {
    return this.cluster.nodes;
  }

  /** The node of this number, from 1 on. */
  node(number: number): ClusterNode {
    const node = this.nodes[number - 1];
    if (node !== undefined) return node;
    throw new RangeError(`Cannot find node ${number}: there is none`);
  }

  /** Creates an address pool. */
  async createPool(
    name: string,
    subnet: { readonly ipv4: string; readonly ipv6?: string },
    options: { readonly blockSizeBits?: number } = {},
  ): Promise<AddressPool> {
    const { blockSizeBits = BLOCK_SIZE_BITS } = options;
    return await this.client.create(ADDRESS_POOLS, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name },
      spec: { blockSizeBits, subnets: [subnet] },
    });
  }

  /** Waits until the newest of Coil's programs serve. */
  async rolledOut(): Promise<void> {
    for (const what of this.workloads) {
      await this.plane.kubectl(
        ...["-n", NAMESPACE, "rollout", "status", what, ROLLOUT],
      );
    }
  }

  async #install(by: Way): Promise<void> {
    if (by === "chart") {
      await this.plane.kubectlStdin(["apply", "-f", "-"], await renderChart());
    } else {
      const overlay = by.replace("overlay ", "");
      await this.plane.kubectl("apply", "-k", `${DEPLOY}/overlays/${overlay}`);
    }
    if (by === "overlay ipam") await startBirds(this.plane, this.nodes);
    await this.plane.kubectl(
      ...["wait", "--for=condition=Established", "crd", "--all"],
    );
    await this.createPool("default", POOL);
    await this.cluster.waitReady();
    await this.rolledOut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await using _cluster = this.cluster;
    await noteRights(this.plane);
  }
}

/** The objects of the chart, as this tests' installation has them. */
export async function renderChart(): Promise<string> {
  return await run(await ensureHelm(), [
    ...["template", "coil", `${DEPLOY}/chart`, "--namespace", NAMESPACE],
    ...["--set", "router.enabled=true"],
  ]);
}
