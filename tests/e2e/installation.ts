// Coil on a real cluster, installed as a user does it.
import { buildImage } from "../../deploy/image/mod.ts";
import { ADDRESS_POOLS, type AddressPool } from "../../lib/api/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { Cluster, type ClusterNode } from "../lab/cluster/mod.ts";
import { ensureHelm } from "../lab/helm.ts";
import { type AuditPolicy, type ControlPlane, run } from "../lab/mod.ts";
import { PodRunner } from "./pods.ts";

const DEPLOY = new URL("../../deploy", import.meta.url).pathname;
const NAMESPACE = "kube-system";
const ROLLOUT = "--timeout=300s";

/** Prefixes of the pool `default`; one of 2^15 blocks. */
export const POOL = { ipv4: "10.100.0.0/16", ipv6: "fd02:64::/112" } as const;
/** Blocks of 32 addresses. */
const BLOCK_SIZE_BITS = 5;

/** How an {@link Installation} is made. */
export interface InstallationOptions {
  /** Of the lab; each file of tests has its own. */
  readonly name: string;
  readonly nodes: number;
  /** Which of the two ways to install is taken. */
  readonly by: "kustomize" | "helm";
  /** Lets the API server note who asks for what. */
  readonly audit?: AuditPolicy;
}

/** A cluster that runs Coil from its image and its manifests, with direct routes between the nodes. */
export class Installation implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly client: KubeClient;
  readonly pods: PodRunner;

  private constructor(cluster: Cluster, client: KubeClient) {
    this.cluster = cluster;
    this.client = client;
    this.pods = new PodRunner(cluster.plane, client);
  }

  /** From nothing to a cluster whose nodes are Ready. */
  static async create(options: InstallationOptions): Promise<Installation> {
    const image = await buildImage({ compression: "none" });
    await using undo = new AsyncDisposableStack();
    const cluster = undo.use(
      await Cluster.start({ ...options, images: [image.path] }),
    );
    const { kubeconfig } = cluster.plane;
    const client = undo.use(await KubeClient.load({ kubeconfig }));
    const installation = new Installation(cluster, client);
    await installation.#install(options.by);
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

  /** Waits until the newest coild, coil-router and coil-controller serve. */
  async rolledOut(): Promise<void> {
    for (
      const what of ["ds/coild", "ds/coil-router", "deploy/coil-controller"]
    ) {
      await this.plane.kubectl(
        ...["-n", NAMESPACE, "rollout", "status", what, ROLLOUT],
      );
    }
  }

  async #install(by: InstallationOptions["by"]): Promise<void> {
    if (by === "kustomize") {
      await this.plane.kubectl("apply", "-k", `${DEPLOY}/overlays/router`);
    } else {
      const manifests = await run(await ensureHelm(), [
        ...["template", "coil", `${DEPLOY}/chart`, "--namespace", NAMESPACE],
        ...["--set", "router.enabled=true"],
      ]);
      await this.plane.kubectlStdin(["apply", "-f", "-"], manifests);
    }
    await this.plane.kubectl(
      ...["wait", "--for=condition=Established", "crd", "--all"],
    );
    await this.createPool("default", POOL);
    await this.cluster.waitReady();
    await this.rolledOut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await this.cluster[Symbol.asyncDispose]();
  }
}
