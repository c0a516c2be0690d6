import { AdminAccess } from "./admin_access.ts";
import * as path from "node:path";
import {
  type AuditedRequest,
  type AuditFilter,
  type AuditPolicy,
  auditPolicyText,
  dropHalfLine,
  parseAuditLog,
} from "./audit.ts";
import { ensureControlPlane, type Log } from "./build.ts";
import { binDir, labDir, lockFile } from "./cache.ts";
import { cleanUp } from "./cleanup.ts";
import {
  API_PORT,
  type ComponentContext,
  copyData,
  etcdDataDir,
  issueServingCertificate,
  prepareFiles,
  startApiServer,
  startControllerManager,
  startEtcd,
} from "./components.ts";
import { remove } from "./files.ts";
import {
  BRIDGE_HOST,
  createNetwork,
  type LabFamily,
  type LabNetwork,
  type LabSubnet,
} from "./network.ts";
import { LabNode } from "./node.ts";
import { type Authority, sharedPki } from "./pki.ts";
import { type LabProcess, spawnProcess } from "./process.ts";
import {
  requestToken,
  type ServiceAccountRef,
  writeServiceAccountDir,
} from "./service_account.ts";
import { eventually, sleep } from "./wait.ts";

const READY_TIMEOUT_MS = 180_000;
const IN_CLUSTER_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** How a control plane is started. */
export interface ControlPlaneOptions {
  /** Names its namespaces `coil-<name>-…`; what an earlier run of this name left is removed first. */
  readonly name: string;
  /** Writes the audit log that {@link ControlPlane.auditRequests} reads. */
  readonly audit?: AuditPolicy;
  /** Runs kube-controller-manager too: owner references, Deployments, default service accounts. Off by default. */
  readonly controllerManager?: boolean;
  /** IP versions of bridge, nodes and Services; the first is the one that is advertised. Both by default. */
  readonly families?: readonly LabFamily[];
  /** Directory of the programs, as `ensureApiServer()` returns it; those of {@link ensureControlPlane} without it. */
  readonly programs?: string;
  /** Directory with the data of another control plane's etcd, of the same families, to begin with a copy of. */
  readonly data?: string | undefined;
  /** More flags for kube-apiserver. */
  readonly apiServerArgs?: readonly string[];
  readonly log?: Log;
}

/** How {@link ControlPlane.startProcess} starts a program. */
export interface StartProcessOptions {
  /** Unique name; the program's base name and a number by default. */
  readonly id?: string;
  /** Where it runs; in the machine's own network namespace without it. */
  readonly node?: LabNode;
  /** Where it runs, when that is no node. */
  readonly netns?: string;
  /** Gives it a token as a pod has it: mounted files and KUBERNETES_SERVICE_HOST and _PORT. */
  readonly serviceAccount?: ServiceAccountRef;
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly mounts?: readonly { source: string; target: string }[];
  readonly logFile?: string;
}

/** A running etcd and kube-apiserver in a network namespace, reachable from this machine and from its nodes. */
export class ControlPlane extends AdminAccess implements AsyncDisposable {
  readonly name: string;
  readonly families: readonly LabFamily[];
  readonly #context: ComponentContext;
  readonly #options: ControlPlaneOptions;
  #etcd: LabProcess | undefined;
  #apiServer: LabProcess | undefined;
  #controllerManager: LabProcess | undefined;
  #processes = 0;
  readonly #lock: Disposable;
  #disposed = false;

  private constructor(
    context: ComponentContext,
    options: ControlPlaneOptions & { lock: Disposable },
    ca: string,
  ) {
    const { runDir, pki, adminToken, programs } = context;
    super({ url: urlOf(context), ca, runDir, pki, adminToken, programs });
    this.name = options.name;
    this.families = context.families;
    this.#context = context;
    this.#options = options;
    this.#lock = options.lock;
  }

  /** Builds what is missing, starts the control plane and returns when it is ready. Waits while another process has one of this name. */
  static async start(options: ControlPlaneOptions): Promise<ControlPlane> {
    if (!/^[a-z0-9][a-z0-9-]{0,30}$/.test(options.name)) {
      throw new TypeError(`Cannot name a control plane "${options.name}"`);
    }
    const log = options.log ?? (() => {});
    if (options.programs === undefined) await ensureControlPlane({ log });
    const programs = options.programs ?? binDir();
    const runDir = path.join(labDir(), "run", options.name);
    const families = options.families ?? ["ipv4", "ipv6"];
    await using undo = new AsyncDisposableStack();
    const lock = undo.use(
      await lockFile(path.join(labDir(), "run", `${options.name}.lock`), {
        onWait: () => log(`waiting for another run of "${options.name}"`),
      }),
    );
    await cleanUp(options.name, { log });
    await Deno.mkdir(runDir, { recursive: true, mode: 0o700 });
    undo.defer(() => cleanUp(options.name, { log, keepLogs: true }));
    const netns = `coil-${options.name}-cp`;
    const network = await createNetwork({ netns, families });
    const pki = await sharedPki();
    const adminToken = crypto.randomUUID();
    const context = { runDir, programs, network, families, pki, adminToken };
    await prepareFiles(context);
    const ca = await Deno.readTextFile(pki.caCert);
    const plane = new ControlPlane(context, { ...options, lock }, ca);
    undo.defer(() => plane.close());
    await plane.writeKubeconfig(plane.kubeconfig, { token: adminToken });
    await plane.#startComponents();
    undo.move();
    return plane;
  }

  /** Network namespace of the bridge, etcd and the API server. */
  get netns(): string {
    return this.#context.network.netns;
  }

  /** Addresses of bridge, nodes and machine. */
  get subnet(): LabSubnet {
    return this.#context.network.subnet;
  }

  /** The network, for {@link LabNode}. */
  get network(): LabNetwork {
    return this.#context.network;
  }

  /** The API server's process, while it runs. */
  get apiServer(): LabProcess | undefined {
    return this.#apiServer;
  }

  /** etcd's process, while it runs. */
  get etcd(): LabProcess | undefined {
    return this.#etcd;
  }

  /** Where etcd has its data. */
  get dataDir(): string {
    return etcdDataDir(this.runDir);
  }

  /** Makes a node: a network namespace on the bridge and, unless told otherwise, a Node object with its addresses. */
  async addNode(
    number: number,
    options: { name?: string; register?: boolean } = {},
  ): Promise<LabNode> {
    return await LabNode.create(this, { number, ...options });
  }

  /** Issues a token for a service account, bound to a Node when one is named. */
  async serviceAccountToken(account: ServiceAccountRef): Promise<string> {
    return await requestToken(this, account);
  }

  /** Writes token, ca.crt and namespace as a pod sees them and returns the directory. */
  async serviceAccountDir(account: ServiceAccountRef): Promise<string> {
    return await writeServiceAccountDir(this, account);
  }

  /** Environment that tells a program in a pod where the API server is. */
  inClusterEnv(): Record<string, string> {
    const family = this.families[0] ?? "ipv4";
    return {
      KUBERNETES_SERVICE_HOST: this.subnet.address(family, BRIDGE_HOST),
      KUBERNETES_SERVICE_PORT: String(API_PORT),
    };
  }

  /** Starts a program on a node or on this machine, as a pod's program when a service account is given. */
  async startProcess(options: StartProcessOptions): Promise<LabProcess> {
    const base = path.basename(options.command);
    const { node, serviceAccount } = options;
    const netns = node?.netns ?? options.netns;
    const mounts = [...options.mounts ?? []];
    const env: Record<string, string> = {};
    if (serviceAccount !== undefined) {
      await Deno.mkdir(IN_CLUSTER_DIR, { recursive: true });
      mounts.push({
        source: await this.serviceAccountDir({
          ...serviceAccount,
          ...(node === undefined ? {} : { node: node.name }),
        }),
        target: IN_CLUSTER_DIR,
      });
      Object.assign(env, this.inClusterEnv());
    }
    return await spawnProcess({
      id: options.id ?? `${base}-${++this.#processes}`,
      runDir: this.runDir,
      command: options.command,
      args: options.args ?? [],
      env: { ...env, ...options.env },
      mounts,
      ...(netns === undefined ? {} : { netns }),
      ...(options.logFile === undefined ? {} : { logFile: options.logFile }),
    });
  }

  /** Requests that the API server has answered so far, oldest first; `audit` must have been on. */
  async auditRequests(filter: AuditFilter = {}): Promise<AuditedRequest[]> {
    return parseAuditLog(await Deno.readTextFile(this.#auditLog), filter);
  }

  get #auditLog(): string {
    return path.join(this.runDir, "audit.log");
  }

  /**
   * Restarts the API server with another certificate to serve with: of another authority when one is given, which
   * administrators and {@link AdminAccess.request} have to be told of by {@link AdminAccess.trust}.
   */
  async renewServingCertificate(
    authority: Authority = this.#context.pki,
  ): Promise<void> {
    await this.killApiServer();
    await issueServingCertificate(this.#context, authority);
    await this.startApiServer();
  }

  /** Ends the API server with SIGKILL, as a crash would; etcd and its data stay. */
  async killApiServer(): Promise<void> {
    await this.#apiServer?.kill9();
    this.#apiServer = undefined;
  }

  /** Starts the API server again after {@link ControlPlane.killApiServer} and waits until it is ready. */
  async startApiServer(): Promise<void> {
    if (this.#apiServer?.isRunning) return;
    const extraArgs = [...this.#options.apiServerArgs ?? []];
    if (this.#options.audit !== undefined) {
      const policy = path.join(this.runDir, "audit-policy.json");
      await Deno.writeTextFile(policy, auditPolicyText(this.#options.audit));
      await dropHalfLine(this.#auditLog);
      extraArgs.push(
        `--audit-policy-file=${policy}`,
        `--audit-log-path=${this.#auditLog}`,
      );
    }
    if (this.#options.controllerManager !== true) {
      // Nobody would make the default service account that it wants for pods.
      extraArgs.push("--disable-admission-plugins=ServiceAccount");
    }
    this.#apiServer = await startApiServer(this.#context, { extraArgs });
    await this.#waitReady();
  }

  /** Ends everything and removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    using _lock = this.#lock;
    this.close();
    const running = [this.#controllerManager, this.#apiServer, this.#etcd];
    await cleanUp(this.name, { log: this.#options.log ?? (() => {}) });
    await Promise.all(running.map((process) => process?.exited));
  }

  async #startComponents(): Promise<void> {
    const { data } = this.#options;
    // An earlier run of this name may have kept its own.
    await remove(this.dataDir);
    if (data !== undefined) await copyData(data, this.dataDir);
    this.#etcd = await startEtcd(this.#context);
    await this.startApiServer();
    if (this.#options.controllerManager !== true) return;
    this.#controllerManager = await startControllerManager(this.#context, {
      kubeconfig: await this.#controllerManagerKubeconfig(),
    });
    await eventually("the default service account", async () => {
      this.#failIfEnded(this.#controllerManager);
      await this.request(
        "GET",
        "/api/v1/namespaces/default/serviceaccounts/default",
      );
      return true;
    }, { timeoutMs: READY_TIMEOUT_MS });
  }

  async #controllerManagerKubeconfig(): Promise<string> {
    const base = path.join(this.runDir, "controller-manager");
    const user = { cert: `${base}.crt`, key: `${base}.key` };
    await this.writeKubeconfig(`${base}.kubeconfig`, user);
    return `${base}.kubeconfig`;
  }

  async #waitReady(): Promise<void> {
    const deadline = performance.now() + READY_TIMEOUT_MS;
    while (true) {
      this.#failIfEnded(this.#etcd);
      this.#failIfEnded(this.#apiServer);
      try {
        await this.request("GET", "/readyz");
        return;
      } catch (err) {
        if (performance.now() <= deadline) {
          await sleep(50);
          continue;
        }
        const log = await this.#apiServer?.logs() ?? "";
        throw new Error(
          `Cannot start the API server: ${log.slice(-2000)}`,
          { cause: err },
        );
      }
    }
  }

  #failIfEnded(process: LabProcess | undefined): void {
    if (process?.isRunning !== false) return;
    const log = Deno.readTextFileSync(process.logFile).slice(-2000);
    throw new Error(`Cannot go on: ${process.logFile} ends with: ${log}`);
  }
}

function urlOf(context: ComponentContext): string {
  const family = context.families[0] ?? "ipv4";
  const address = context.network.subnet.address(family, BRIDGE_HOST);
  const host = family === "ipv4" ? address : `[${address}]`;
  return `https://${host}:${API_PORT}`;
}
