/**
 * What the tests of coild share: a control plane with Coil's resources, nodes
 * as namespaces, the daemon as a process, pods, and CNI calls over the socket.
 *
 * @module
 */
import * as path from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import {
  AddResponseSchema,
  CNIArgsSchema,
  type CNIError,
  CNIErrorSchema,
  StatusSchema,
} from "../../lib/cnirpc/mod.ts";
import { codeName, GrpcError } from "../../lib/grpc/mod.ts";
import { callUnary } from "../../lib/grpc/testing.ts";
import {
  type AuditPolicy,
  type ControlPlane,
  eventually,
  type LabNode,
  type LabProcess,
  listNetns,
  run,
  startCoilPlane,
} from "../lab/mod.ts";
import { EXECUTABLE_ENV, untilKnown } from "../lab/coil.ts";
import { BlockGranter } from "./coild_granter.ts";

const MAIN = new URL("../../main.ts", import.meta.url).pathname;
const POLICIES = new URL("../../deploy/policies", import.meta.url).pathname;

/** Where a pod finds its service account. */
const ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * How long ADD waits for a block, unless a test says so: on a busy machine 10 s,
 * the default, may be over before there is one, and a kubelet would call again.
 */
const BLOCK_TIMEOUT = "--block-request-timeout=130s";
/** Longer than that. */
const CALL_TIMEOUT_MS = 140_000;
/** More than the 25 s after which the daemon ends with work undone. */
const STOP_MS = 60_000;

/** A call that the daemon refused. */
export class CallError extends Error {
  override readonly name = "CallError";
  /** gRPC code name. */
  readonly status: string;
  /** CNI error code; -1 without the detail. */
  readonly code: number;
  /** What the runtime is told besides the message. */
  readonly details: string;

  constructor(error: GrpcError) {
    const detail = cniErrorIn(error);
    super(detail?.msg ?? error.message, { cause: error });
    this.status = codeName(error.code);
    this.code = detail?.code ?? -1;
    this.details = detail?.details ?? "";
  }
}

function cniErrorIn({ statusDetails }: GrpcError): CNIError | undefined {
  if (statusDetails === undefined) return undefined;
  const [detail] = fromBinary(StatusSchema, statusDetails).details;
  return detail && anyUnpack(detail, CNIErrorSchema);
}

/** A pod's sandbox as a runtime has it. */
export interface Sandbox {
  readonly namespace: string;
  readonly name: string;
  readonly containerId: string;
  readonly ifname: string;
  /** Name below /run/netns. */
  readonly netns: string;
}

/** A CNI result, as far as the tests look into it. */
export interface AddResult {
  readonly cniVersion: string;
  readonly interfaces: readonly {
    readonly name: string;
    readonly mac?: string;
    readonly sandbox?: string;
  }[];
  readonly ips: readonly {
    readonly address: string;
    readonly interface: number;
  }[];
}

/** Overrides of a call. */
export interface CallChanges {
  readonly netns?: string;
  readonly ifname?: string;
  readonly containerId?: string;
  readonly args?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly valid?: readonly Sandbox[];
  readonly timeoutMs?: number;
  /** Hangs up. */
  readonly signal?: AbortSignal;
}

/** A daemon that runs on a node. */
export class Coild implements AsyncDisposable {
  readonly node: LabNode;
  readonly process: LabProcess;
  readonly socketPath: string;

  constructor(node: LabNode, process: LabProcess, socketPath: string) {
    this.node = node;
    this.process = process;
    this.socketPath = socketPath;
  }

  /** Makes a CNI call as the plugin does. @throws {CallError} */
  async call(
    method: "Add" | "Del" | "Check" | "Gc" | "Status",
    sandbox: Sandbox | undefined,
    changes: CallChanges = {},
  ): Promise<Uint8Array> {
    const args = create(CNIArgsSchema, {
      containerId: changes.containerId ?? sandbox?.containerId ?? "",
      netns: changes.netns ?? (sandbox ? `/run/netns/${sandbox.netns}` : ""),
      ifname: changes.ifname ?? sandbox?.ifname ?? "",
      args: changes.args ?? {
        K8S_POD_NAME: sandbox?.name ?? "",
        K8S_POD_NAMESPACE: sandbox?.namespace ?? "",
        K8S_POD_INFRA_CONTAINER_ID: sandbox?.containerId ?? "",
        IS_CHAINED: "false",
      },
      path: "/opt/cni/bin",
      stdinData: new TextEncoder().encode(JSON.stringify({
        cniVersion: "1.1.0",
        name: "k8s-pod-network",
        type: "coil",
        ...(changes.valid && {
          "cni.dev/valid-attachments": changes.valid.map((attachment) => ({
            containerID: attachment.containerId,
            ifname: attachment.ifname,
          })),
        }),
        ...changes.config,
      })),
      validAttachments: (changes.valid ?? []).map(
        ({ containerId, ifname }) => ({ containerId, ifname }),
      ),
    });
    try {
      return await callUnary({
        socketPath: this.socketPath,
        method: `/pkg.cnirpc.CNI/${method}`,
        message: toBinary(CNIArgsSchema, args),
        timeoutMs: changes.timeoutMs ?? CALL_TIMEOUT_MS,
        ...(changes.signal && { signal: changes.signal }),
      });
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      throw new CallError(error);
    }
  }

  async add(sandbox: Sandbox, changes?: CallChanges): Promise<AddResult> {
    const answer = await this.call("Add", sandbox, changes);
    const { result } = fromBinary(AddResponseSchema, answer);
    return JSON.parse(new TextDecoder().decode(result));
  }

  /** The addresses of a new ADD, without prefix lengths. */
  async addresses(sandbox: Sandbox, changes?: CallChanges): Promise<string[]> {
    const { ips } = await this.add(sandbox, changes);
    return ips.map(({ address }) => address.split("/")[0] ?? "");
  }

  async del(sandbox: Sandbox, changes?: CallChanges): Promise<void> {
    await this.call("Del", sandbox, changes);
  }

  async check(sandbox: Sandbox, changes?: CallChanges): Promise<void> {
    await this.call("Check", sandbox, changes);
  }

  /** The error of a call that must fail. */
  async refused(call: Promise<unknown>): Promise<CallError> {
    try {
      await call;
    } catch (error) {
      if (error instanceof CallError) return error;
      throw error;
    }
    throw new Error("Cannot go on: the call succeeded");
  }

  /** Value of a sample of the daemon's metrics; undefined when it is absent. */
  async metric(sample: string): Promise<number | undefined> {
    const text = await this.node.run(
      "curl",
      "-sf",
      "http://127.0.0.1:9384/metrics",
    );
    const line = text.split("\n").find((l) => l.startsWith(`${sample} `));
    return line === undefined ? undefined : Number(line.split(" ").at(-1));
  }

  /** What `/readyz` answers, with each of its checks. */
  async readyz(): Promise<string> {
    const url = "http://127.0.0.1:9385/readyz?verbose";
    return await this.node.run("curl", "-s", url);
  }

  /** Waits until its cache has these pods: for others an ADD asks the API server. */
  async knows(...sandboxes: readonly Sandbox[]): Promise<void> {
    await untilKnown(this.socketPath, sandboxes);
  }

  /** Resolves when STATUS says that ADD is served. */
  async ready(): Promise<void> {
    try {
      await eventually(`coild of ${this.node.name} to be ready`, async () => {
        if (!this.process.isRunning) return true;
        await this.call("Status", undefined);
        return true;
      });
    } catch (cause) {
      throw new Error(`Cannot go on: ${await this.process.logs()}`, { cause });
    }
    if (this.process.isRunning) return;
    throw new Error(`Cannot go on: ${await this.process.logs()}`);
  }

  /** Ends it as a kubelet does, which is more patient than the daemon itself. */
  async stop(): Promise<Deno.CommandStatus> {
    return await this.process.stop({ graceMs: STOP_MS });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** How a {@linkcode CoildLab} starts. */
export interface CoildLabOptions {
  readonly name: string;
  readonly nodes?: number;
  readonly audit?: AuditPolicy;
  readonly controllerManager?: boolean;
}

/** How {@linkcode CoildLab.spawnCoild} starts the daemon. */
export interface SpawnOptions {
  readonly socketPath?: string;
  /** Another program than `main.ts coild`. */
  readonly command?: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  /** Gives it the token of a pod, as a kubelet does, and the right to ask for others. Default: a token of the node. */
  readonly ownPod?: boolean;
}

/** A control plane with Coil's resources and rights, and nodes. */
export class CoildLab implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly nodes: readonly LabNode[];
  readonly granter: BlockGranter;
  readonly #accounts = new Map<string, string>();
  #daemons = 0;
  #controllers = 0;

  private constructor(plane: ControlPlane, nodes: readonly LabNode[]) {
    this.plane = plane;
    this.nodes = nodes;
    this.granter = new BlockGranter(plane);
  }

  static async start(options: CoildLabOptions): Promise<CoildLab> {
    const plane = await startCoilPlane(options);
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const nodes: LabNode[] = [];
    for (let n = 1; n <= (options.nodes ?? 1); n++) {
      nodes.push(await plane.addNode(n));
    }
    undo.move();
    return new CoildLab(plane, nodes);
  }

  /** The n-th node, from 1. */
  node(n: number = 1): LabNode {
    const node = this.nodes[n - 1];
    if (node === undefined) throw new RangeError(`Cannot find node ${n}`);
    return node;
  }

  /** Starts coild; it may not be ready yet. */
  async spawnCoild(
    node: LabNode = this.node(),
    args: readonly string[] = [],
    options: SpawnOptions = {},
  ): Promise<Coild> {
    const socketPath = options.socketPath ??
      path.join(this.plane.runDir, `${node.name}.sock`);
    const process = await this.plane.startProcess({
      id: `coild-${node.name}-${++this.#daemons}`,
      node,
      ...prefixed(options.command ?? coilCommand("coild"), [
        `--socket=${socketPath}`,
        ...args,
      ]),
      mounts: [{
        source: options.ownPod
          ? await this.#podAccount(node)
          : await this.#account(node),
        target: ACCOUNT_DIR,
      }],
      env: {
        ...this.plane.inClusterEnv(),
        COIL_NODE_NAME: node.name,
        ...options.env,
      },
    });
    return new Coild(node, process, socketPath);
  }

  /** Starts the real controller, in place of the granter. */
  async startController(
    args: readonly string[] = [],
    { command = coilCommand("coil-controller") }: Pick<
      SpawnOptions,
      "command"
    > = {},
  ): Promise<LabProcess> {
    const none = ["--metrics-addr=0", "--health-addr=0", ...args];
    return await this.plane.startProcess({
      id: `coil-controller-${++this.#controllers}`,
      ...prefixed(command, none),
      serviceAccount: { namespace: "kube-system", name: "coil-controller" },
      env: {
        COIL_POD_NAMESPACE: "kube-system",
        COIL_POD_NAME: "coil-controller-0",
      },
    });
  }

  /** Registers a node whose Node object was deleted; the token bound to the old one is good for nothing now. */
  async registerAgain(node: LabNode): Promise<void> {
    await node.register();
    this.#accounts.delete(node.name);
    // As the kubelet does, at the same place: a daemon that runs reads it again.
    await this.#account(node);
  }

  /** Waits until the API server refuses the daemon's token; its cache may take it for ten seconds after the Node is deleted. */
  async tokenRefused(node: LabNode): Promise<void> {
    const file = path.join(await this.#account(node), "token");
    const token = await Deno.readTextFile(file);
    const config = await this.plane.kubeconfigFor({ token });
    const get = ["get", `node/${node.name}`, `--kubeconfig=${config}`];
    await eventually(
      "the token's refusal",
      () =>
        this.plane.kubectl(...get).then(
          () => false,
          (error: Error) => error.message.includes("Unauthorized"),
        ),
      { intervalMs: 500 },
    );
  }

  /** The daemon's credentials, written once: a start must not need the API server. */
  async #account(node: LabNode): Promise<string> {
    const known = this.#accounts.get(node.name);
    if (known !== undefined) return known;
    await Deno.mkdir(ACCOUNT_DIR, { recursive: true });
    const dir = await this.plane.serviceAccountDir({
      namespace: "kube-system",
      name: "coild",
      node: node.name,
    });
    this.#accounts.set(node.name, dir);
    return dir;
  }

  /** Like {@linkcode CoildLab.#account}, with the token of coild's pod on the node. */
  async #podAccount(node: LabNode): Promise<string> {
    const key = `pod on ${node.name}`;
    const known = this.#accounts.get(key);
    if (known !== undefined) return known;
    await Deno.mkdir(ACCOUNT_DIR, { recursive: true });
    await this.plane.kubectl("apply", "-k", POLICIES);
    const dir = await this.plane.serviceAccountDir({
      namespace: "kube-system",
      name: "coild",
      pod: await this.coildPod(node.name),
    });
    this.#accounts.set(key, dir);
    return dir;
  }

  /** Creates the Pod object of a coild. */
  async coildPod(
    node: string,
  ): Promise<{ readonly name: string; readonly uid: string }> {
    const name = `coild-${node}`;
    const pod = await this.plane.request(
      "POST",
      "/api/v1/namespaces/kube-system/pods",
      {
        metadata: { name },
        spec: {
          nodeName: node,
          hostNetwork: true,
          serviceAccountName: "coild",
          containers: [{ name: "coild", image: "none" }],
        },
      },
    );
    return { name, uid: (pod as ListedObject).metadata.uid };
  }

  /** Starts coild and waits until it serves ADD. */
  async startCoild(
    node: LabNode = this.node(),
    args: readonly string[] = [],
    options: SpawnOptions = {},
  ): Promise<Coild> {
    const all = [BLOCK_TIMEOUT, ...args];
    const coild = await this.spawnCoild(node, all, options);
    await coild.ready();
    return coild;
  }

  async createPool(
    name: string,
    subnets: readonly { ipv4?: string; ipv6?: string }[],
    blockSizeBits: number = 5,
  ): Promise<void> {
    await this.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name, finalizers: ["coil.cybozu.com"] },
      spec: { blockSizeBits, subnets },
    });
  }

  async createNamespace(
    name: string,
    annotations: Record<string, string> = {},
  ): Promise<void> {
    await this.plane.apply({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, annotations },
    });
  }

  /** Creates a Pod bound to a node, and its sandbox. */
  async createPod(
    name: string,
    options: {
      namespace?: string;
      node?: LabNode;
      annotations?: Record<string, string>;
    } = {},
  ): Promise<Sandbox> {
    const { namespace = "default", node = this.node() } = options;
    await this.plane.request("POST", `/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace,
        ...(options.annotations && { annotations: options.annotations }),
      },
      spec: {
        nodeName: node.name,
        containers: [{ name: "main", image: "none" }],
      },
    });
    return await this.createSandbox(name, { namespace });
  }

  /** Creates only the sandbox: a network namespace and a container ID. */
  async createSandbox(
    name: string,
    options: { namespace?: string } = {},
  ): Promise<Sandbox> {
    const { namespace = "default" } = options;
    const bytes = crypto.getRandomValues(new Uint8Array(32));
    const containerId = bytes.toHex();
    const netns = `coil-${this.plane.name}-pod-${containerId.slice(0, 8)}`;
    await run("ip", ["netns", "add", netns]);
    return { namespace, name, containerId, netns, ifname: "eth0" };
  }

  async deletePod({ namespace, name }: Sandbox): Promise<void> {
    await this.plane.request(
      "DELETE",
      `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`,
    );
  }

  async deleteNetns({ netns }: Sandbox): Promise<void> {
    await run("ip", ["netns", "delete", netns]);
  }

  /** Names of the AddressBlocks, sorted. */
  async blocks(pool?: string): Promise<string[]> {
    const answer = await this.list("addressblocks");
    return answer
      .filter((b) =>
        !pool || b.metadata.labels?.["coil.cybozu.com/pool"] === pool
      )
      .map((b) => b.metadata.name).sort();
  }

  /** Objects of one of Coil's resources. */
  async list(plural: string): Promise<ListedObject[]> {
    const answer = await this.plane.request(
      "GET",
      `/apis/coil.cybozu.com/v2/${plural}`,
    ) as { items: ListedObject[] };
    return answer.items;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.granter[Symbol.asyncDispose]();
    await deletePods(this.plane.name);
    await this.plane[Symbol.asyncDispose]();
  }
}

/** An object of a list. */
export interface ListedObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels?: Record<string, string>;
    readonly finalizers?: string[];
    readonly deletionTimestamp?: string;
    readonly ownerReferences?: readonly { readonly uid: string }[];
  };
}

/** The command that runs a program from the sources. */
export function fromSources(
  file: string,
  ...args: string[]
): readonly [string, ...string[]] {
  return [Deno.execPath(), "run", "-A", "-q", "--no-check", file, ...args];
}

/** Runs a role: of the executable that the runner names, which starts in a third of the time, else from the sources. */
export function coilCommand(
  ...args: readonly string[]
): readonly [string, ...string[]] {
  const executable = Deno.env.get(EXECUTABLE_ENV);
  return executable === undefined
    ? fromSources(MAIN, ...args)
    : [executable, ...args];
}

function prefixed(
  [command, ...first]: readonly [string, ...string[]],
  rest: readonly string[],
) {
  return { command, args: [...first, ...rest] };
}

async function deletePods(lab: string): Promise<void> {
  for (const netns of await listNetns()) {
    if (!netns.startsWith(`coil-${lab}-pod-`)) continue;
    await run("ip", ["netns", "delete", netns]);
  }
}

/** Runs a command in a sandbox. */
export async function inPod(
  { netns }: Sandbox,
  command: string,
  ...args: string[]
): Promise<string> {
  return await run("nsenter", [`--net=/run/netns/${netns}`, command, ...args]);
}
