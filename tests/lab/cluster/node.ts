import * as path from "node:path";
import { binDir } from "../cache.ts";
import { run, type RunOptions } from "../command.ts";
import type { ControlPlane } from "../control_plane.ts";
import { GO_DAEMON_ENV } from "../go_env.ts";
import { LabNode } from "../node.ts";
import { issueCertificate, sharedPki } from "../pki.ts";
import {
  childrenOf,
  type LabProcess,
  recordProcess,
  spawnProcess,
} from "../process.ts";
import { eventually } from "../wait.ts";
import { createCgroup, labCgroup, removeCgroup } from "./cgroups.ts";
import {
  containerdConfig,
  kubeletConfig,
  type KubeletFiles,
  proxyConfig,
} from "./node_files.ts";
import { endChildren, Restarts } from "./restarts.ts";

const INIT = path.join(import.meta.dirname ?? ".", "node_init.sh");
/** Debian's directory of network plugins, and those that a node has from the start. */
const PLUGINS = "/usr/lib/cni";
const PLUGIN_NAMES = ["loopback", "portmap", "bridge", "host-local"];
/** Those that come with containerd 2. */
const NEWER_PLUGIN_NAMES = ["loopback", "portmap"];
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Programs of a node that can be restarted one by one. */
export type NodeDaemon = "containerd" | "kubelet" | "kube-proxy";

/** How a {@link ClusterNode} is made. */
export interface ClusterNodeOptions {
  readonly number: number;
  /** Archives of images that it has from the start. */
  readonly images: readonly string[];
  readonly maxPods: number;
  /** Directory of the executables of containerd, and of its plugins; Debian's without it. */
  readonly containerd?: string;
}

/** kubelet listens at its default port for health checks once it has found containerd's CRI service ready. */
const KUBELET_LISTENS = / 0100007F:2808 00000000:0000 0A /;

/**
 * A node that is real but for its kernel: containerd, kubelet and kube-proxy in network, mount, UTS, IPC and PID
 * namespaces of its own. Its disk is a directory, which outlives {@link ClusterNode.powerOff}.
 */
export class ClusterNode {
  readonly #plane: ControlPlane;
  readonly #options: ClusterNodeOptions;
  /** Directory of its disk: `cni-conf` is its /etc/cni/net.d, `cni-bin` its /opt/cni/bin. */
  readonly directory: string;
  /** Of the machine: its hostname, and what the lab calls what it has. */
  readonly #hostname: string;
  #name: string;
  readonly #daemons = new Map<NodeDaemon, LabProcess>();
  /** Of kubelet, which ends by itself now and then. */
  #restarts: Restarts | undefined;
  #network: LabNode | undefined;
  #init: { readonly process: LabProcess; readonly pid: number } | undefined;

  constructor(plane: ControlPlane, options: ClusterNodeOptions) {
    this.#plane = plane;
    this.#options = options;
    this.#hostname = `node${options.number}`;
    this.#name = this.#hostname;
    this.directory = path.join(plane.runDir, this.#hostname);
  }

  /** Name of the Node object. */
  get name(): string {
    return this.#name;
  }

  /** Its addresses, of the cluster's families. */
  get addresses(): readonly string[] {
    return this.#booted().network.addresses;
  }

  /** Name of its network namespace. */
  get netns(): string {
    return this.#booted().network.netns;
  }

  /** Path, as seen from the machine, of a file of the running node. */
  file(absolute: string): string {
    return `/proc/${this.#booted().init.pid}/root${absolute}`;
  }

  /** Makes the namespaces and starts the daemons. The Node object comes when kubelet has registered it. */
  async boot(): Promise<void> {
    await Deno.mkdir(this.directory, { recursive: true });
    this.#network = await LabNode.create(this.#plane, {
      number: this.#options.number,
      register: false,
    });
    await createCgroup(this.#cgroup);
    await this.#writeFiles();
    await this.#startInit();
    await this.start("containerd");
    await this.#importImages();
    await this.start("kubelet");
    await this.start("kube-proxy");
  }

  /** Ends everything at once, as a power failure does. The disk stays: {@link ClusterNode.boot} goes on with it. */
  async powerOff(): Promise<void> {
    const { init, network } = this.#booted();
    await this.#restarts?.end();
    const daemons = [...this.#daemons.values()];
    this.#daemons.clear();
    Deno.kill(init.pid, "SIGKILL");
    await init.process.exited;
    for (const daemon of daemons) await daemon.exited;
    this.#init = undefined;
    await network[Symbol.asyncDispose]();
    this.#network = undefined;
    await removeCgroup(this.#cgroup);
  }

  /** Starts one of its programs. When this returns, containerd answers and kubelet has found it ready. */
  async start(daemon: NodeDaemon): Promise<void> {
    const process = await this.#spawn(daemon);
    if (daemon === "kubelet") return await this.#keepKubelet(process);
    if (daemon !== "containerd") return;
    await eventually(`containerd of ${this.name}`, async () => {
      await this.run("ctr", ["version"]);
      return true;
    }, { timeoutMs: 180_000 });
  }

  async #spawn(daemon: NodeDaemon): Promise<LabProcess> {
    const { init } = this.#booted();
    const { command, args } = this.#commandOf(daemon);
    const { containerd } = this.#options;
    const process = await spawnProcess({
      id: `${this.#hostname}-${daemon}`,
      runDir: this.#plane.runDir,
      command: "nsenter",
      args: [...enter(init.pid), command, ...args],
      env: {
        ...GO_DAEMON_ENV,
        // containerd finds its shim there.
        PATH: containerd === undefined ? PATH : `${containerd}:${PATH}`,
      },
    });
    this.#daemons.set(daemon, process);
    return process;
  }

  /** As an init system does: kubelet ends where containerd's CRI service is not ready, or where it cannot register its Node for a while. */
  async #keepKubelet(process: LabProcess): Promise<void> {
    const { init } = this.#booted();
    const sockets = `/proc/${init.pid}/net/tcp`;
    this.#restarts = new Restarts(
      process,
      async () =>
        init.process.isRunning ? await this.#spawn("kubelet") : undefined,
    );
    await eventually(`kubelet of ${this.name} to go on`, async () => {
      if (KUBELET_LISTENS.test(await Deno.readTextFile(sockets))) return true;
      throw new Error((await process.logs()).slice(-2000));
    }, { timeoutMs: 180_000, intervalMs: 500 });
  }

  /** Ends one of its programs. */
  async stop(
    daemon: NodeDaemon,
    options: { signal?: "SIGTERM" | "SIGKILL" } = {},
  ): Promise<void> {
    if (daemon === "kubelet") await this.#restarts?.end();
    const process = this.#daemons.get(daemon);
    if (process === undefined) return;
    this.#daemons.delete(daemon);
    await endChildren(process, options.signal ?? "SIGTERM");
  }

  /**
   * Gives kubelet and kube-proxy another name, as an admin does who changes `--hostname-override` and restarts them. The Node object of
   * the earlier name stays, and so do the containers, which kubelet finds when it starts.
   */
  async rename(name: string): Promise<void> {
    await this.stop("kube-proxy");
    await this.stop("kubelet");
    this.#name = name;
    await this.#writeIdentity();
    await this.start("kubelet");
    await this.start("kube-proxy");
  }

  /** Runs a command in all of the node's namespaces and returns its stdout. */
  async run(
    command: string,
    args: readonly string[],
    options: RunOptions = {},
  ): Promise<string> {
    const { init } = this.#booted();
    return await run("nsenter", [...enter(init.pid), command, ...args], {
      ...options,
      env: { PATH, ...options.env },
    });
  }

  /** Adds an image to containerd's store. */
  async importImage(archive: string): Promise<void> {
    await this.run("ctr", ["-n", "k8s.io", "images", "import", archive]);
  }

  get #cgroup(): string {
    return `${labCgroup(this.#plane.name)}/${this.#hostname}`;
  }

  #booted() {
    const [network, init] = [this.#network, this.#init];
    if (network !== undefined && init !== undefined) return { network, init };
    throw new Error(`Cannot use "${this.name}": it is off`);
  }

  async #writeFiles(): Promise<void> {
    const certificate = await this.#writeIdentity();
    // Nobody serves names here; kubelet wants a file that is no loop.
    await this.#write("resolv.conf", "nameserver 192.0.2.1\n");
    await this.#write("containerd.toml", containerdConfig());
    await this.#write(
      "kubelet.json",
      JSON.stringify(kubeletConfig({
        caFile: this.#plane.caFile,
        certificate,
        cgroup: `/${this.#cgroup}`,
        resolvConf: this.#path("resolv.conf"),
        maxPods: this.#options.maxPods,
      })),
    );
    const plugins = this.#path("cni-bin");
    await Deno.mkdir(plugins, { recursive: true });
    const { containerd } = this.#options;
    for (const name of PLUGIN_NAMES) {
      const isNewer = containerd !== undefined &&
        NEWER_PLUGIN_NAMES.includes(name);
      const from = isNewer ? containerd : PLUGINS;
      await Deno.copyFile(path.join(from, name), path.join(plugins, name));
    }
  }

  /** Writes what kubelet and kube-proxy have of the node's name, and returns the certificate that kubelet serves with. */
  async #writeIdentity(): Promise<KubeletFiles["certificate"]> {
    const certificate = await issueCertificate(
      await sharedPki(),
      this.#path("kubelet"),
      {
        user: `system:node:${this.name}`,
        groups: ["system:nodes"],
        names: [
          `DNS:${this.name}`,
          ...(this.#network?.addresses ?? []).map((a) => `IP:${a}`),
        ],
      },
    );
    await this.#plane.writeKubeconfig(
      this.#path("kubelet.kubeconfig"),
      certificate,
    );
    const proxy = await this.#plane.kubeconfigFor({
      user: "system:kube-proxy",
    });
    await this.#write(
      "kube-proxy.json",
      JSON.stringify(proxyConfig(proxy, this.name)),
    );
    return certificate;
  }

  async #startInit(): Promise<void> {
    const podtool = path.join(binDir(), "podtool");
    const id = `${this.#hostname}-init`;
    const { runDir } = this.#plane;
    const process = await spawnProcess({
      id,
      runDir,
      netns: this.#network?.netns ?? "",
      command: "unshare",
      args: [
        ...["--mount", "--uts", "--ipc", "--pid", "--fork"],
        ...["--kill-child=SIGKILL", "sh", INIT],
        ...[this.#hostname, this.directory, podtool],
      ],
      env: { PATH },
    });
    const pid = await eventually(`${this.name} to boot`, async () => {
      if (!process.isRunning) {
        throw new Error(`it ended: ${await process.logs()}`);
      }
      const [child] = await childrenOf(process.pid);
      if (child === undefined) return undefined;
      await Deno.stat(`/proc/${child}/root/run/booted`);
      return child;
    });
    // Anyone who ends this one has ended all of the node when it is gone.
    recordProcess(pid, { runDir, id: `${id}-1`, command: podtool });
    this.#init = { process, pid };
  }

  async #importImages(): Promise<void> {
    const done = this.#path("images-imported");
    if (await Deno.stat(done).then(() => true, () => false)) return;
    for (const archive of this.#options.images) await this.importImage(archive);
    await Deno.writeTextFile(done, "");
  }

  #commandOf(daemon: NodeDaemon): { command: string; args: string[] } {
    switch (daemon) {
      case "containerd":
        return {
          command: path.join(this.#options.containerd ?? "", "containerd"),
          args: ["-c", this.#path("containerd.toml")],
        };
      case "kubelet":
        return {
          command: path.join(binDir(), "kubelet"),
          args: [
            `--config=${this.#path("kubelet.json")}`,
            `--kubeconfig=${this.#path("kubelet.kubeconfig")}`,
            `--hostname-override=${this.name}`,
            `--node-ip=${this.addresses.join()}`,
            "--root-dir=/var/lib/kubelet",
            "--volume-plugin-dir=/var/lib/kubelet/volume-plugins",
          ],
        };
      case "kube-proxy":
        return {
          command: path.join(binDir(), "kube-proxy"),
          args: [`--config=${this.#path("kube-proxy.json")}`],
        };
    }
  }

  #path(name: string): string {
    return path.join(this.directory, name);
  }

  async #write(name: string, text: string): Promise<void> {
    await Deno.writeTextFile(this.#path(name), text);
  }
}

function enter(pid: number): readonly string[] {
  return ["-t", String(pid), "-m", "-u", "-i", "-n", "-p"];
}
