// Coil with all its roles in the virtual machine: coild on two nodes, gateways
// as pods, Services translated, and pods as clients.
import * as path from "node:path";
import { type Egress, EGRESSES, type EgressSpec } from "../../lib/api/mod.ts";
import { PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import { type LabProcess, spawnProcess } from "../lab/process.ts";
import { writeServiceAccountDir } from "../lab/service_account.ts";
import { eventually } from "../lab/wait.ts";
import { openAccess, type VmAccess } from "./e2e_access.ts";
import {
  type Gateway,
  GatewayKubelet,
  type GatewayProbes,
  isReady,
} from "./e2e_kubelet.ts";
import {
  CLIENTS,
  createObjects,
  GATEWAYS,
  removeObjects,
  routeBlocks,
} from "./e2e_objects.ts";
import { allowPeerGateways, allowPeerNodes, peerBinDir } from "./e2e_peer.ts";
import { PodRuntime, type PodRuntimeOptions, type VmPod } from "./e2e_pods.ts";
import { ServiceProxy } from "./e2e_proxy.ts";
import { createTopology, type Topology, type VmNode } from "./topology.ts";
import { NetnsSockets, OutsideServers } from "./traffic.ts";

const ROLES = ["coild", "coil-egress"];
const TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";
const READY_MS = 180_000;
const COILD_HEALTH_PORT = 9385;

/** A client's pod, with sockets in it. */
export interface Client extends Disposable {
  readonly pod: VmPod;
  readonly sockets: NetnsSockets;
}

/** How a client's pod is made. */
export interface ClientOptions {
  readonly name: string;
  /** 0 or 1. */
  readonly node?: number;
  /** Its own namespace, and with it the pool of its addresses. */
  readonly namespace?: string;
  /** The Egresses that it uses. */
  readonly egresses?: string;
  /** Their namespace. */
  readonly egressNamespace?: string;
  /** Whether its status is reported at once, which it is not before a kubelet's next turn. */
  readonly report?: boolean;
}

/** How a cluster is set up. */
export interface ClusterOptions {
  /** More flags for coild. */
  readonly coildArgs?: readonly string[];
  /** Whose gateways, or whose coild and plugin, are upstream's; none without it. */
  readonly peer?: "gateways" | "nodes";
  /** How gateways are probed by their kubelet; `often` without it. */
  readonly probes?: GatewayProbes;
  /** The node of all gateways, 0 or 1; they are spread over both without it. */
  readonly gatewayNode?: 0 | 1;
  /** See {@link PodRuntimeOptions}. */
  readonly first?: NonNullable<PodRuntimeOptions["first"]>;
}

/** A program's file, and arguments of its own. */
interface Program {
  readonly file: string;
  readonly args: readonly string[];
}

/** Upstream's coild waits in vain for an answer that came before it listened; the next ADD asks again. */
const PEER_STARTS = 5;

/** What changes nothing of gateways but that they are new. */
const RESTARTED: Partial<EgressSpec> = {
  template: { metadata: { annotations: { restarted: "yes" } } },
};

/** A gateway's answer takes a busy machine longer than a second at first. */
const ANNOUNCE = ["--egress-announce-timeout=10s"];

/** Coil at work. Disposing of it removes all that it made, objects included. */
export class EgressCluster implements AsyncDisposable {
  readonly access: VmAccess;
  readonly topology: Topology;
  readonly proxy: ServiceProxy;
  readonly kubelet: GatewayKubelet;
  readonly runtime: PodRuntime;
  readonly #coild: Program;
  readonly #daemons = new Map<string, LabProcess>();
  readonly #resources: AsyncDisposableStack;

  private constructor(parts: {
    readonly access: VmAccess;
    readonly topology: Topology;
    readonly proxy: ServiceProxy;
    readonly kubelet: GatewayKubelet;
    readonly runtime: PodRuntime;
    readonly coild: Program;
    readonly resources: AsyncDisposableStack;
  }) {
    this.access = parts.access;
    this.topology = parts.topology;
    this.proxy = parts.proxy;
    this.kubelet = parts.kubelet;
    this.runtime = parts.runtime;
    this.#coild = parts.coild;
    this.#resources = parts.resources;
  }

  /** Makes the world and starts coild on both nodes. */
  static async start(options: ClusterOptions = {}): Promise<EgressCluster> {
    const { coildArgs = [], first, gatewayNode, peer, probes = "often" } =
      options;
    const peerGateways = peer === "gateways";
    const peerNodes = peer === "nodes";
    await using resources = new AsyncDisposableStack();
    const access = resources.use(await openAccess());
    const topology = resources.use(await createTopology());
    resources.use(new OutsideServers(topology.outside));
    resources.defer(() => removeObjects(access));
    await createObjects(access, topology.nodes);
    if (peerGateways) resources.use(await allowPeerGateways(access, GATEWAYS));
    if (peerNodes) resources.use(await allowPeerNodes(access));
    const binDir = await linkRoles(access.runDir);
    for (const node of topology.nodes) {
      await placePlugins(access, { node, peerNodes });
    }
    const runtime = resources.use(
      new PodRuntime({
        client: access.client,
        pluginsOf: (node) => pluginsOf(access, node),
        socketOf: (node) => socketOf(access, node),
        ...(peerNodes ? { cniVersion: "1.0.0", starts: PEER_STARTS } : {}),
        ...(first === undefined ? {} : { first }),
      }),
    );
    const { nodes } = topology;
    resources.use(routeBlocks(access, topology));
    const proxy = resources.use(new ServiceProxy(access.client, nodes));
    const daemons = new AsyncDisposableStack();
    resources.use(daemons);
    const kubelet = resources.use(
      new GatewayKubelet({
        access,
        runtime,
        binDir: peerGateways ? peerBinDir() : binDir,
        knows: (flag) => !peerGateways || !flag.startsWith("--drain-timeout="),
        nodes: gatewayNode === undefined ? nodes : [nodes[gatewayNode]],
        probes,
      }),
    );
    const cluster = new EgressCluster({
      access,
      topology,
      proxy,
      kubelet,
      runtime,
      coild: peerNodes
        ? { file: `${peerBinDir()}/coild`, args: coildArgs }
        : { file: `${binDir}/coild`, args: [...ANNOUNCE, ...coildArgs] },
      resources: resources.move(),
    });
    daemons.defer(() => cluster.#stopDaemons());
    try {
      await Promise.all(nodes.map((node) => cluster.startCoild(node)));
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
    return cluster;
  }

  get nodes(): readonly [VmNode, VmNode] {
    return this.topology.nodes;
  }

  /** Starts coild on a node and waits until it is ready. */
  async startCoild(node: VmNode): Promise<LabProcess> {
    const { access } = this;
    const source = await writeServiceAccountDir(access.admin, {
      namespace: "kube-system",
      name: "coild",
      pod: await coildPod(access, node),
    });
    await Deno.mkdir(TOKEN_DIR, { recursive: true });
    const daemon = await spawnProcess({
      id: `coild-${node.name}`,
      runDir: access.runDir,
      netns: node.netns,
      command: this.#coild.file,
      args: [
        `--socket=${socketOf(access, node)}`,
        // Asked from outside of its network.
        `--health-addr=:${COILD_HEALTH_PORT}`,
        ...this.#coild.args,
      ],
      env: { COIL_NODE_NAME: node.name, ...access.inClusterEnv },
      mounts: [{ source, target: TOKEN_DIR }],
    });
    this.#daemons.set(node.name, daemon);
    await eventually(`coild on ${node.name} to be ready`, async () => {
      if (!daemon.isRunning) throw new Error(await tailOf(daemon));
      return await isReady(node.addresses.ipv4, COILD_HEALTH_PORT);
    }, { timeoutMs: READY_MS, intervalMs: 200 });
    return daemon;
  }

  daemonOf(node: VmNode): LabProcess {
    const daemon = this.#daemons.get(node.name);
    if (daemon === undefined) throw new Error(`no coild on ${node.name}`);
    return daemon;
  }

  /** Creates an Egress and waits until its gateways are ready and Services lead to them. */
  async createEgress(
    name: string,
    spec: EgressSpec,
    { namespace = GATEWAYS }: { readonly namespace?: string } = {},
  ): Promise<Egress> {
    const egress = await this.access.client.create<Egress>(EGRESSES, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { namespace, name },
      spec,
    });
    await this.gatewaysReady(name, spec.replicas ?? 1);
    return egress;
  }

  /** Changes an Egress by a merge patch. */
  async patchEgress(
    name: string,
    spec: Partial<EgressSpec>,
    { namespace = GATEWAYS }: { readonly namespace?: string } = {},
  ): Promise<void> {
    const target = { namespace, name };
    await this.access.client.patch(EGRESSES, target, { spec }, {
      kind: "merge",
    });
  }

  /** Gateways of an Egress, those that end included. */
  gatewaysOf(egress: string): readonly Gateway[] {
    return this.kubelet.gateways().filter(({ pod }) =>
      pod.name.startsWith(`${egress}-`)
    );
  }

  /** Waits until so many gateways serve, and the proxy knows. */
  async gatewaysReady(
    egress: string,
    count: number,
  ): Promise<readonly Gateway[]> {
    return await eventually(`${count} gateways of ${egress}`, () => {
      const ready = this.gatewaysOf(egress).filter((g) => g.ready);
      const isKnown = (address: string) =>
        this.proxy.translations.some((t) => t.usable.includes(address));
      const all = ready.length === count &&
        ready.every((g) => g.pod.addresses.every(isKnown));
      return all ? ready : undefined;
    }, { timeoutMs: READY_MS, intervalMs: 100 });
  }

  /** Has all gateways of an Egress replaced, by a change of what they are made of, and waits until so many new ones serve, and no other is there. */
  async replaceGateways(
    egress: string,
    count: number,
    change: Partial<EgressSpec> = RESTARTED,
  ): Promise<void> {
    const before = this.gatewaysOf(egress);
    await this.patchEgress(egress, change);
    // Each waits for its flows, as long as the drain time allows.
    await eventually("new gateways only", () => {
      const now = this.gatewaysOf(egress);
      return now.length === count &&
        now.every((gateway) => !before.includes(gateway));
    }, { timeoutMs: READY_MS, intervalMs: 200 });
    await this.gatewaysReady(egress, count);
  }

  /** Makes a pod that is a client, or none. */
  async createClient(options: ClientOptions): Promise<Client> {
    const { name, node: index = 0, egresses, report = true } = options;
    const { namespace = CLIENTS, egressNamespace = GATEWAYS } = options;
    const node = this.nodes[index] ?? this.nodes[0];
    const created = await this.access.client.create<V1Pod>(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        namespace,
        name,
        ...(egresses === undefined ? {} : {
          annotations: {
            [`egress.coil.cybozu.com/${egressNamespace}`]: egresses,
          },
        }),
      },
      spec: {
        nodeName: node.name,
        containers: [{ name: "main", image: "none" }],
      },
    });
    const uid = created.metadata?.uid ?? "";
    const ref = { namespace, name, uid };
    const pod = await this.runtime.start(ref, node);
    if (report) await this.runtime.report(pod, { ready: true });
    const sockets = new NetnsSockets(pod.sandbox.netns);
    return { pod, sockets, [Symbol.dispose]: () => sockets[Symbol.dispose]() };
  }

  /** Reports the status of a client that was made without. */
  async reportClient({ pod }: Client): Promise<void> {
    await this.runtime.report(pod, { ready: true });
  }

  /** Changes the annotation that names the client's Egresses; null takes it away. */
  async annotate(client: Client, egresses: string | null): Promise<void> {
    const { namespace, name } = client.pod;
    await this.access.client.patch(PODS, { namespace, name }, {
      metadata: {
        annotations: { [`egress.coil.cybozu.com/${GATEWAYS}`]: egresses },
      },
    }, { kind: "merge" });
  }

  /** Ends the client and its pod. */
  async removeClient(client: Client): Promise<void> {
    client[Symbol.dispose]();
    const { namespace, name } = client.pod;
    await this.runtime.stop(client.pod);
    await this.access.client.delete(PODS, {
      namespace,
      name,
      gracePeriodSeconds: 0,
    });
  }

  /** Logs of coild and gateways, for tests that fail. */
  async logs(): Promise<string> {
    const dir = path.join(this.access.runDir, "logs");
    const parts: string[] = [];
    for await (const { name } of Deno.readDir(dir)) {
      const text = await Deno.readTextFile(path.join(dir, name));
      const lines = text.trimEnd().split("\n").slice(-15)
        .map((line) => line.slice(0, 400));
      parts.push(`--- ${name}\n${lines.join("\n")}`);
    }
    return parts.join("\n");
  }

  async #stopDaemons(): Promise<void> {
    for (const daemon of this.#daemons.values()) await daemon.kill9();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** The Pod object of a node's coild, which its token is bound to. */
async function coildPod(
  { client }: VmAccess,
  node: VmNode,
): Promise<{ readonly name: string; readonly uid: string }> {
  const name = `coild-${node.name}`;
  const target = { namespace: "kube-system", name };
  const pod = await client.tryGet(PODS, target) ??
    await client.create<V1Pod>(PODS, {
      metadata: target,
      spec: {
        nodeName: node.name,
        hostNetwork: true,
        serviceAccountName: "coild",
        containers: [{ name: "coild", image: "none" }],
      },
    });
  return { name, uid: pod.metadata?.uid ?? "" };
}

function socketOf(access: VmAccess, node: VmNode): string {
  return path.join(access.runDir, `${node.name}.sock`);
}

async function tailOf(process: LabProcess): Promise<string> {
  return `${process.logFile} ends with: ${(await process.logs()).slice(-2000)}`;
}

/** A node's directory of CNI plugins. */
function pluginsOf(access: VmAccess, node: VmNode): string {
  return path.join(access.runDir, `${node.name}.plugins`);
}

async function placePlugins(
  access: VmAccess,
  { node, peerNodes }: {
    readonly node: VmNode;
    readonly peerNodes: boolean;
  },
): Promise<void> {
  const directory = pluginsOf(access, node);
  if (peerNodes) {
    await Deno.mkdir(directory);
    await Deno.symlink(`${peerBinDir()}/coil`, path.join(directory, "coil"));
    return;
  }
  await placePlugin(directory, {
    executable: executablePath(),
    socket: socketOf(access, node),
  });
  await Deno.symlink("coil", path.join(directory, "coordinator"));
}

export function executablePath(): string {
  const executable = Deno.env.get("COIL_EXECUTABLE");
  if (executable !== undefined) return executable;
  throw new Error("Cannot run Coil: COIL_EXECUTABLE is not set");
}

async function linkRoles(runDir: string): Promise<string> {
  const binDir = path.join(runDir, "bin");
  await Deno.mkdir(binDir);
  for (const role of ROLES) {
    await Deno.symlink(executablePath(), path.join(binDir, role));
  }
  return binDir;
}
