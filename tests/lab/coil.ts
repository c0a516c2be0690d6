// Coil itself on a lab's control plane: the executable under its roles' names,
// the manifests a user applies, a daemon per node, pods as a runtime makes them.
import * as path from "node:path";
import { askAddresses } from "../../lib/cnirpc/inspection/mod.ts";
import { type NamespacedName, nameText } from "../../lib/names/mod.ts";
import { run } from "./command.ts";
import { type CoilPlaneOptions, startCoilPlane } from "./coil_plane.ts";
import type { ControlPlane } from "./control_plane.ts";
import { placePlugin } from "./plugin_file.ts";
import { deleteNetns, listNetns, MACHINE_HOST } from "./network.ts";
import type { LabNode } from "./node.ts";
import type { LabProcess } from "./process.ts";
import {
  addPatiently,
  callPlugin,
  netnsPath,
  type PluginAnswer,
  type Sandbox,
  sandboxOf,
} from "./runtime.ts";
import { eventually } from "./wait.ts";

const ROLES = ["coil", "coild", "coil-controller", "coil-router"] as const;

/** Names the executable of which tests run daemons, which they take from the sources without it. */
export const EXECUTABLE_ENV = "COIL_TEST_EXECUTABLE";

export interface CoilOptions extends CoilPlaneOptions {
  /** The compiled file, see deploy/executable. */
  readonly executable: string;
  readonly nodes: number;
}

/** A pod whose network is up, with the addresses of its CNI result. */
export interface LabPod {
  readonly node: LabNode;
  readonly sandbox: Sandbox;
  readonly addresses: readonly string[];
  readonly wallMs: number;
}

/** A plugin call that answered with an error. */
export class PluginError extends Error {
  override readonly name = "PluginError";
  readonly answer: PluginAnswer;
  readonly code: number;
  constructor(what: string, answer: PluginAnswer) {
    const body = parseJson(answer.stdout);
    const text = typeof body["msg"] === "string" ? body["msg"] : answer.stdout;
    super(`Cannot ${what}: ${text || answer.stderr}`);
    this.answer = answer;
    this.code = typeof body["code"] === "number" ? body["code"] : -1;
  }
}

function parseJson(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

/** A cluster that runs Coil. Disposing of it removes everything. */
export class CoilCluster implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly nodes: readonly LabNode[];
  /** Directory of the executable's links, one per role. */
  readonly binDir: string;
  readonly #daemons = new Map<string, LabProcess>();
  #controller: LabProcess | undefined;

  private constructor(
    plane: ControlPlane,
    nodes: readonly LabNode[],
    binDir: string,
  ) {
    this.plane = plane;
    this.nodes = nodes;
    this.binDir = binDir;
  }

  /** Starts the control plane, with CRDs and RBAC, and the nodes. Starts no role. */
  static async start(options: CoilOptions): Promise<CoilCluster> {
    const plane = await startCoilPlane(options);
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const nodes: LabNode[] = [];
    for (let n = 1; n <= options.nodes; n++) nodes.push(await plane.addNode(n));
    const binDir = path.join(plane.runDir, "bin");
    await Deno.mkdir(binDir, { recursive: true });
    for (const role of ROLES) {
      await Deno.symlink(options.executable, path.join(binDir, role));
    }
    const cluster = new CoilCluster(plane, nodes, binDir);
    for (const node of nodes) {
      await placePlugin(cluster.pluginDir(node), {
        executable: options.executable,
        socket: cluster.socketOf(node),
      });
    }
    undo.move();
    return cluster;
  }

  /** Starts `coil-controller` on the machine and waits until it leads. */
  async startController(
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<LabProcess> {
    // An address of this lab alone: several may run at once.
    const { families, subnet } = this.plane;
    const address = subnet.address(families[0] ?? "ipv4", MACHINE_HOST);
    const host = address.includes(":") ? `[${address}]` : address;
    const controller = await this.plane.startProcess({
      id: "coil-controller",
      command: path.join(this.binDir, "coil-controller"),
      args: [
        `--metrics-addr=${host}:9386`,
        `--health-addr=${host}:9387`,
        ...args,
      ],
      serviceAccount: { namespace: "kube-system", name: "coil-controller" },
      env: {
        COIL_POD_NAMESPACE: "kube-system",
        COIL_POD_NAME: "coil-controller-0",
        ...env,
      },
    });
    this.#controller = controller;
    await this.#ready(controller, () => probe(`http://${host}:9387/readyz`));
    return controller;
  }

  get controller(): LabProcess | undefined {
    return this.#controller;
  }

  socketOf(node: LabNode): string {
    return path.join(this.plane.runDir, `${node.name}.sock`);
  }

  /** The node's directory of CNI plugins. */
  pluginDir(node: LabNode): string {
    return path.join(this.binDir, node.name);
  }

  daemonOf(node: LabNode): LabProcess | undefined {
    return this.#daemons.get(node.name);
  }

  /** Starts `coild` on a node and waits until it is ready. An ADD waits long for a block unless told otherwise: a slow machine takes its time to grant one. */
  async startCoild(
    node: LabNode,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<LabProcess> {
    const patience = "--block-request-timeout=";
    const isPatient = args.some((arg) => arg.startsWith(patience));
    const daemon = await this.plane.startProcess({
      id: `coild-${node.name}`,
      node,
      command: path.join(this.binDir, "coild"),
      args: [
        `--socket=${this.socketOf(node)}`,
        ...(isPatient ? [] : [`${patience}60s`]),
        ...args,
      ],
      serviceAccount: { namespace: "kube-system", name: "coild" },
      env: { COIL_NODE_NAME: node.name, ...env },
    });
    this.#daemons.set(node.name, daemon);
    await this.#ready(daemon, () => this.status(node));
    return daemon;
  }

  /** Starts `coil-router` on a node: direct routes to the other nodes' blocks. Its memory is counted in a control group, if there is one. */
  async startRouter(
    node: LabNode,
    { memoryGroup }: { readonly memoryGroup?: string } = {},
  ): Promise<LabProcess> {
    const router = path.join(this.binDir, "coil-router");
    return await this.plane.startProcess({
      id: `coil-router-${node.name}`,
      node,
      ...(memoryGroup === undefined ? { command: router } : {
        command: "sh",
        args: [
          "-c",
          'echo $$ > "$1/cgroup.procs" && exec "$0"',
          router,
          memoryGroup,
        ],
      }),
      serviceAccount: { namespace: "kube-system", name: "coil-router" },
      env: { COIL_NODE_NAME: node.name },
    });
  }

  /** Whether CNI STATUS says that the node can serve ADD. */
  async status(node: LabNode): Promise<boolean> {
    const { code } = await callPlugin({
      ...this.#plugin(node),
      command: "STATUS",
    });
    return code === 0;
  }

  /** Waits until coild on a node has these pods in its cache: for others an ADD asks the API server. */
  async knows(node: LabNode, ...sandboxes: readonly Sandbox[]): Promise<void> {
    const pods = sandboxes.map(({ namespace, pod }) => ({
      namespace,
      name: pod,
    }));
    await untilKnown(this.socketOf(node), pods);
  }

  /** The node's network configuration, as a conflist's entry reaches a plugin. */
  config(node: LabNode): Record<string, unknown> {
    return {
      cniVersion: "1.1.0",
      name: "k8s-pod-network",
      type: "coil",
      socket: this.socketOf(node),
    };
  }

  /** Creates the Pod object, bound to the node, and its network namespace. */
  async createSandbox(
    node: LabNode,
    pod: {
      readonly namespace: string;
      readonly name: string;
      readonly annotations?: Readonly<Record<string, string>>;
    },
  ): Promise<Sandbox> {
    const { namespace, name, annotations } = pod;
    await this.plane.request("POST", `/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace, annotations },
      spec: {
        nodeName: node.name,
        containers: [{ name: "main", image: "none" }],
      },
    });
    const netns = `coil-${this.plane.name}-pod-${namespace}-${name}`;
    await run("ip", ["netns", "add", netns]);
    await run("ip", ["-n", netns, "link", "set", "lo", "up"]);
    return sandboxOf(netns, pod);
  }

  /** CNI ADD, once more whenever there was no address in time, as by a kubelet. @throws {PluginError} when the plugin refuses. */
  async add(node: LabNode, sandbox: Sandbox): Promise<LabPod> {
    const answer = await addPatiently({ ...this.#plugin(node), sandbox });
    return podOf(answer, { node, sandbox });
  }

  /** CNI ADD, once. @throws {PluginError} when the plugin refuses. */
  async addOnce(node: LabNode, sandbox: Sandbox): Promise<LabPod> {
    const answer = await callPlugin({
      ...this.#plugin(node),
      command: "ADD",
      sandbox,
    });
    return podOf(answer, { node, sandbox });
  }

  /** CNI DEL. @throws {PluginError} when the plugin refuses. */
  async del(node: LabNode, sandbox: Sandbox): Promise<number> {
    const answer = await callPlugin({
      ...this.#plugin(node),
      command: "DEL",
      sandbox,
    });
    if (answer.code !== 0) {
      throw new PluginError(
        `delete "${sandbox.namespace}/${sandbox.pod}"`,
        answer,
      );
    }
    return answer.wallMs;
  }

  /** Reports the pod's addresses in its status, as a kubelet does. */
  async reportStatus(pod: LabPod): Promise<void> {
    const { namespace, pod: name } = pod.sandbox;
    await this.plane.request(
      "PATCH",
      `/api/v1/namespaces/${namespace}/pods/${name}/status`,
      {
        status: {
          phase: "Running",
          podIP: pod.addresses[0],
          podIPs: pod.addresses.map((ip) => ({ ip })),
        },
      },
      { contentType: "application/merge-patch+json" },
    );
  }

  /** Deletes the Pod object and the network namespace. */
  async removeSandbox(sandbox: Sandbox): Promise<void> {
    const { namespace, pod } = sandbox;
    await this.plane.request(
      "DELETE",
      `/api/v1/namespaces/${namespace}/pods/${pod}?gracePeriodSeconds=0`,
    );
    await run("ip", ["netns", "delete", sandbox.netns]);
  }

  /** Runs a command in the pod's network namespace. */
  async exec(
    sandbox: Sandbox,
    command: string,
    ...args: string[]
  ): Promise<string> {
    const net = `--net=${netnsPath(sandbox.netns)}`;
    return await run("nsenter", [net, command, ...args]);
  }

  #plugin(node: LabNode) {
    return {
      plugin: path.join(this.pluginDir(node), "coil"),
      config: this.config(node),
      nodeNetns: node.netns,
    };
  }

  async #ready(
    process: LabProcess,
    test: () => Promise<boolean>,
  ): Promise<void> {
    let ended = false;
    const ready = eventually(
      `${process.logFile} to be ready`,
      async () => ended || await test(),
    );
    const end = process.exited.then(async () => {
      ended = true;
      const log = (await process.logs()).slice(-2000);
      throw new Error(`Cannot go on: ${process.logFile} ends with: ${log}`);
    });
    // Later ends are the caller's business.
    end.catch(() => {});
    await Promise.race([ready, end]);
    if (ended) await end;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of [this.#controller, ...this.#daemons.values()]) {
      await process?.stop();
    }
    await deletePodNetns(this.plane.name);
    await this.plane[Symbol.asyncDispose]();
  }
}

/** An answer of coild's about its addresses takes no longer. */
const ASK_MS = 140_000;

/** Waits until the coild of a socket has these pods in its cache. */
export async function untilKnown(
  socketPath: string,
  pods: readonly NamespacedName[],
): Promise<void> {
  await eventually("the pods in coild's cache", async () => {
    const answer = await askAddresses(socketPath, {
      signal: AbortSignal.timeout(ASK_MS),
    });
    const known = new Set(answer.pods?.map(nameText));
    return pods.every((pod) => known.has(nameText(pod)));
  }, { intervalMs: 300 }); // it answers four times a second
}

function podOf(
  answer: PluginAnswer,
  { node, sandbox }: Pick<LabPod, "node" | "sandbox">,
): LabPod {
  if (answer.code !== 0) {
    throw new PluginError(`add "${sandbox.namespace}/${sandbox.pod}"`, answer);
  }
  const ips = parseJson(answer.stdout)["ips"];
  const addresses = Array.isArray(ips)
    ? ips.map((ip) => String(ip.address).split("/")[0] ?? "")
    : [];
  return { node, sandbox, addresses, wallMs: answer.wallMs };
}

async function probe(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.ok;
  } catch (error) {
    if (error instanceof TypeError) return false; // nobody listens yet
    throw error;
  }
}

/** Removes the pods' namespaces of a lab of this name. */
async function deletePodNetns(name: string): Promise<void> {
  const mine = (netns: string) => netns.startsWith(`coil-${name}-pod-`);
  for (const netns of (await listNetns()).filter(mine)) {
    await deleteNetns(netns);
  }
}
