// Coil on a real cluster, installed as a user does it.
import { buildImage } from "../../deploy/image/mod.ts";
import { ADDRESS_POOLS, type AddressPool } from "../../lib/api/mod.ts";
import { KubeClient, NAMESPACES, NODES } from "../../lib/kube/mod.ts";
import { POOL_ANNOTATION } from "../../lib/names/mod.ts";
import { Cluster, type ClusterNode } from "../lab/cluster/mod.ts";
import { startBirds } from "../lab/bird_sessions.ts";
import { ensureHelm } from "../lab/helm.ts";
import {
  type ControlPlane,
  eventually,
  type LabFamily,
  run,
} from "../lab/mod.ts";
import { noteRights } from "../lab/rights_log.ts";
import { BRIDGE_CONFIGURATION, BRIDGE_FILE } from "./bridge_network.ts";
import { PodRunner } from "./pods.ts";

const DEPLOY = new URL("../../deploy", import.meta.url).pathname;
const NAMESPACE = "kube-system";
const ROLLOUT = "--timeout=600s";

/** Prefixes of the pool `default`; one of 2^15 blocks. */
export const POOL = { ipv4: "10.100.0.0/16", ipv6: "fd02:64::/112" } as const;
/** Blocks of 32 addresses. */
const BLOCK_SIZE_BITS = 5;

/** An overlay by `kubectl apply -k`, or the chart by `helm template | kubectl apply`. */
export type Way =
  | "chart"
  | "chart with coordinator"
  | "overlay compat"
  | "overlay egress-only"
  | "overlay ipam"
  | "overlay router";

/** What a {@link Way} brings, and what it needs beside it. */
interface Kit {
  readonly workloads: readonly string[];
  /** Who tells nodes the routes to each other's pods: coil-router, or a BIRD on each node that reads what coild exports. */
  readonly routes: "coil-router" | "BIRD" | "none";
  /** Whose pods' addresses are: Coil's from a pool, or those of a network that is there before. */
  readonly addresses: "Coil" | "bridge";
}

const CHART: Kit = {
  workloads: ["ds/coild", "ds/coil-router", "deploy/coil-controller"],
  routes: "coil-router",
  addresses: "Coil",
};

const KITS: Readonly<Record<Way, Kit>> = {
  "overlay router": {
    workloads: ["ds/coild", "ds/coil-router", "deploy/coil-controller"],
    routes: "coil-router",
    addresses: "Coil",
  },
  "overlay ipam": {
    workloads: ["ds/coild", "deploy/coil-controller"],
    routes: "BIRD",
    addresses: "Coil",
  },
  "overlay compat": {
    workloads: [
      "ds/coild",
      "deploy/coil-ipam-controller",
      "deploy/coil-egress-controller",
    ],
    routes: "BIRD",
    addresses: "Coil",
  },
  "overlay egress-only": {
    workloads: ["ds/coild", "deploy/coil-controller"],
    routes: "none",
    addresses: "bridge",
  },
  "chart": CHART,
  "chart with coordinator": CHART,
};

/** How an {@link Installation} is made. */
export interface InstallationOptions {
  /** Of the lab; each file of tests has its own. */
  readonly name: string;
  readonly nodes: number;
  /** Which of the ways to install is taken. */
  readonly by: Way;
  /** Numbers of the nodes that run containerd 2; others have Debian's 1.6. */
  readonly containerd2?: readonly number[];
  /** IP versions of nodes, pods and Services, the first one first; both by default, IPv4 first. */
  readonly families?: readonly LabFamily[];
}

/** A cluster that runs Coil from its image and its manifests, with routes between the nodes. */
export class Installation implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly client: KubeClient;
  readonly pods: PodRunner;
  /** How it was made. */
  readonly by: Way;
  /** What {@link Installation.rolledOut} waits for. */
  readonly workloads: readonly string[];

  private constructor(
    cluster: Cluster,
    { client, by }: { readonly client: KubeClient; readonly by: Way },
  ) {
    this.cluster = cluster;
    this.client = client;
    this.by = by;
    this.workloads = KITS[by].workloads;
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
    // Its connection is made here, and not by whichever test asks first.
    await client.list(NODES);
    const { by } = options;
    const installation = new Installation(cluster, { client, by });
    await installation.#install();
    undo.move();
    return installation;
  }

  get plane(): ControlPlane {
    return this.cluster.plane;
  }

  get nodes(): readonly ClusterNode[] {
    return this.cluster.nodes;
  }

  /** Whether it has addresses of its own to give. */
  get hasPools(): boolean {
    return KITS[this.by].addresses === "Coil";
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
    subnet: { readonly [family in LabFamily]?: string },
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

  /** The same, and a namespace of the pool's name, whose pods have its addresses. */
  async createPoolAndNamespace(
    name: string,
    subnet: { readonly ipv4: string; readonly ipv6?: string },
    options: { readonly blockSizeBits: number },
  ): Promise<void> {
    await this.createPool(name, subnet, options);
    await this.client.create(NAMESPACES, {
      metadata: { name, annotations: { [POOL_ANNOTATION]: name } },
    });
    const account = `/api/v1/namespaces/${name}/serviceaccounts/default`;
    // Without it pods are refused.
    await eventually(`the service account of ${name}`, async () => {
      await this.plane.request("GET", account);
      return true;
    });
  }

  /** Waits until the newest of Coil's programs serve. */
  async rolledOut(): Promise<void> {
    for (const what of this.workloads) {
      try {
        await this.#kubectl("rollout", "status", what, ROLLOUT);
      } catch (cause) {
        const pods = await this.#kubectl("describe", "pods");
        const logs = await this.#kubectl("logs", what, "--tail=30").catch(
          String,
        );
        throw new Error(`${what} does not serve\n${pods}\n${logs}`, { cause });
      }
    }
  }

  #kubectl(...args: readonly string[]): Promise<string> {
    return this.plane.kubectl("-n", NAMESPACE, ...args);
  }

  async #install(): Promise<void> {
    const { routes, addresses } = KITS[this.by];
    if (addresses === "bridge") await this.#connectByBridge();
    await this.#apply();
    if (routes === "BIRD") await startBirds(this.plane, this.nodes);
    await this.plane.definitionsEstablished();
    if (addresses === "Coil") {
      const { families } = this.plane;
      const subnet = families.map((family) => [family, POOL[family]] as const);
      await this.createPool("default", Object.fromEntries(subnet));
    }
    await this.cluster.waitReady();
    await this.rolledOut();
  }

  /** Gives the nodes a network before Coil is there. */
  async #connectByBridge(): Promise<void> {
    const text = JSON.stringify(BRIDGE_CONFIGURATION);
    for (const { directory } of this.nodes) {
      await Deno.writeTextFile(`${directory}/cni-conf/${BRIDGE_FILE}`, text);
    }
    await this.cluster.waitReady();
  }

  async #apply(): Promise<void> {
    const { by, plane } = this;
    if (by.startsWith("chart")) {
      const more = by === "chart" ? [] : ["coordinator.enabled=true"];
      const objects = await renderChart(more);
      await plane.kubectlStdin(["apply", "-f", "-"], objects);
      return;
    }
    const overlay = by.replace("overlay ", "");
    await plane.kubectl("apply", "-k", `${DEPLOY}/overlays/${overlay}`);
    if (this.nodes.length > 1) return;
    // There is room for one.
    for (const each of this.workloads.filter((w) => w.startsWith("deploy/"))) {
      await plane.kubectl("-n", NAMESPACE, "scale", each, "--replicas=1");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await using _cluster = this.cluster;
    await noteRights(this.plane);
  }
}

/** The objects of the chart, as this tests' installation has them. */
export async function renderChart(
  more: readonly string[] = [],
): Promise<string> {
  return await run(await ensureHelm(), [
    ...["template", "coil", `${DEPLOY}/chart`, "--namespace", NAMESPACE],
    ...["router.enabled=true", ...more].flatMap((value) => ["--set", value]),
    // Nobody wants to wait for half a minute when a Node was deleted.
    ...["--set", "controller.extraArgs={--node-grace=5s}"],
  ]);
}
