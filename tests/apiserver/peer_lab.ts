/**
 * A cluster on which upstream's Coil v2 (Go) and ours take turns, node by node,
 * with the real manifests, rights and policies of both.
 *
 * @module
 */
import assert from "node:assert/strict";
import * as path from "node:path";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import {
  ControlPlane,
  eventually,
  type LabFamily,
  type LabNode,
  type LabProcess,
  listNetns,
  run,
} from "../lab/mod.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import { ensurePeerCoil, type PeerCoil } from "../lab/peer_coil.ts";
import { issueCertificate, sharedPki } from "../lab/pki.ts";
import {
  callPlugin,
  type PluginCall,
  type Sandbox,
  sandboxOf,
} from "../lab/runtime.ts";
import { DEPLOY } from "./deploy_render.ts";

/** Whose program runs. */
export type Side = "ours" | "peer";

/** Options of {@linkcode PeerLab.call}. */
export interface CallOptions {
  /** Whose plugin is called. */
  readonly plugin?: Side;
  /** What the ADD returned, as a runtime hands it on. */
  readonly prevResult?: unknown;
}

/** A node: whose coild it runs, and the process. */
interface NodeState {
  side: Side;
  daemon: LabProcess;
}

/** The cluster. */
export class PeerLab implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly nodes: readonly LabNode[];
  readonly #peer: PeerCoil;
  readonly #executable: string;
  readonly #states = new Map<string, NodeState>();
  #controller: LabProcess | undefined;
  #processes = 0;

  private constructor(
    plane: ControlPlane,
    nodes: readonly LabNode[],
    programs: { readonly peer: PeerCoil; readonly executable: string },
  ) {
    this.plane = plane;
    this.nodes = nodes;
    this.#peer = programs.peer;
    this.#executable = programs.executable;
  }

  /** Starts it with upstream's definitions and rights; no program runs yet. */
  static async start(
    name: string,
    { nodes, families = ["ipv4"] }: {
      readonly nodes: number;
      readonly families?: readonly LabFamily[];
    },
  ): Promise<PeerLab> {
    const programs = {
      peer: await ensurePeerCoil(),
      executable: await buildExecutable(),
    };
    const plane = await ControlPlane.start({ name, families });
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const made: LabNode[] = [];
    for (let n = 1; n <= nodes; n++) made.push(await plane.addNode(n));
    const lab = undo.use(new PeerLab(plane, made, programs));
    await lab.applyPeer();
    for (const node of made) {
      await placePlugin(path.join(plane.runDir, `plugin-${node.name}`), {
        executable: programs.executable,
        socket: lab.#socket(node),
      });
    }
    await Deno.mkdir(path.join(plane.runDir, "certs"));
    await issueCertificate(
      await sharedPki(),
      path.join(plane.runDir, "certs", "tls"),
      { user: "webhook" },
    );
    undo.move();
    return lab;
  }

  /** Applies upstream's definitions and rights, as its kustomization does. */
  async applyPeer(): Promise<void> {
    const directory = path.join(this.plane.runDir, "upstream");
    await Deno.mkdir(directory, { recursive: true });
    const resource = (name: string) =>
      path.relative(directory, path.join(this.#peer.configDir, name));
    const kustomization = {
      resources: [resource("crd"), resource("rbac")],
      namespace: "kube-system",
      commonLabels: { "app.kubernetes.io/name": "coil" },
    };
    await Deno.writeTextFile(
      path.join(directory, "kustomization.yaml"),
      JSON.stringify(kustomization),
    );
    await this.plane.kubectl("apply", "-k", directory);
    await this.plane.definitionsEstablished();
  }

  /** Applies the overlay: definitions, rights, policies; nothing runs the workloads. */
  async applyCompat(): Promise<void> {
    await this.plane.kubectl("apply", "-k", `${DEPLOY}overlays/compat`);
  }

  /** The controller that was started last. */
  get controller(): LabProcess | undefined {
    return this.#controller;
  }

  /** Replaces the controller. */
  async runController(side: Side): Promise<void> {
    await this.#controller?.stop();
    this.#controller = await this.plane.startProcess({
      id: `controller-${side}-${++this.#processes}`,
      netns: this.plane.netns,
      command: side === "peer"
        ? path.join(this.#peer.binDir, "coil-ipam-controller")
        : this.#executable,
      args: side === "peer"
        ? [`--cert-dir=${path.join(this.plane.runDir, "certs")}`]
        : ["coil-ipam-controller"],
      serviceAccount: {
        namespace: "kube-system",
        name: "coil-ipam-controller",
      },
      env: {
        COIL_POD_NAMESPACE: "kube-system",
        COIL_POD_NAME: `controller-${this.#processes}`,
      },
    });
    await this.#ready(this.#controller, this.plane.netns, 9387);
  }

  /** Ends the node's coild and starts one of a side, as a rollout of the DaemonSet does. */
  async runCoild(node: LabNode, side: Side): Promise<void> {
    await this.#states.get(node.name)?.daemon.stop({ graceMs: 30_000 });
    const socket = `--socket=${this.#socket(node)}`;
    const daemon = await this.plane.startProcess({
      id: `coild-${node.name}-${side}-${++this.#processes}`,
      node,
      command: side === "peer"
        ? path.join(this.#peer.binDir, "coild")
        : this.#executable,
      args: side === "peer" ? [socket, "--enable-egress=false"] : [
        ...["coild", socket, "--enable-egress=false"],
        ...["--pod-gateway=node-address", "--block-return-delay=1s"],
        ...["--cooldown=0s", "--low-water=0"],
      ],
      serviceAccount: { namespace: "kube-system", name: "coild" },
      env: { COIL_NODE_NAME: node.name },
    });
    this.#states.set(node.name, { side, daemon });
    await this.#ready(daemon, node.netns, 9385);
  }

  /** Creates a pod that is bound to the node, and its network namespace. */
  async createPod(
    node: LabNode,
    pod: { readonly namespace: string; readonly name: string },
  ): Promise<Sandbox> {
    const uri = `/api/v1/namespaces/${pod.namespace}/pods`;
    await this.plane.request("POST", uri, {
      metadata: { name: pod.name },
      spec: {
        nodeName: node.name,
        containers: [{ name: "main", image: "none" }],
      },
    });
    const netns = `coil-${this.plane.name}-pod-${pod.name}`;
    await run("ip", ["netns", "add", netns]);
    return sandboxOf(netns, pod);
  }

  /** Removes what {@linkcode PeerLab.createPod} made. */
  async removePod({ namespace, pod, netns }: Sandbox): Promise<void> {
    const uri = `/api/v1/namespaces/${namespace}/pods/${pod}`;
    await this.plane.request("DELETE", `${uri}?gracePeriodSeconds=0`);
    await run("ip", ["netns", "delete", netns]);
  }

  /** Calls a plugin, by default that of the side whose coild runs. Returns its output, and whether it was done. */
  async call(
    node: LabNode,
    command: PluginCall["command"],
    sandbox: Sandbox,
    options: CallOptions = {},
  ): Promise<{ readonly done: boolean; readonly text: string }> {
    const { plugin = this.#states.get(node.name)?.side, prevResult } = options;
    const answer = await callPlugin({
      plugin: plugin === "peer"
        ? path.join(this.#peer.binDir, "coil")
        : path.join(this.plane.runDir, `plugin-${node.name}`, "coil"),
      command,
      sandbox,
      nodeNetns: node.netns,
      config: {
        cniVersion: "1.0.0",
        name: "k8s-pod-network",
        type: "coil",
        socket: this.#socket(node),
        ...(prevResult === undefined ? {} : { prevResult }),
      },
    });
    return { done: answer.code === 0, text: answer.stdout + answer.stderr };
  }

  /** Waits until a node has nothing of pods: the kernel takes a while to remove namespaces with their links. */
  async untilClean(node: LabNode): Promise<void> {
    await eventually(`nothing of pods on ${node.name}`, async () => {
      assert.doesNotMatch(await node.run("ip", "-o", "link"), /COIL|veth/);
      for (const family of this.plane.families) {
        const args = ["route", "show", "table", "116"];
        assert.equal(await node.run("ip", `-${family.at(-1)}`, ...args), "");
      }
      return true;
    });
  }

  /** Names of all objects of a resource of Coil's. */
  async names(resource: string): Promise<string[]> {
    const answer = await this.plane.kubectl("get", resource, "-o", "name");
    return answer.trim().split("\n").filter(Boolean);
  }

  #socket(node: LabNode): string {
    return path.join(this.plane.runDir, `${node.name}.sock`);
  }

  async #ready(process: LabProcess, netns: string, port: number) {
    const url = `http://127.0.0.1:${port}/readyz`;
    const args = [`--net=/run/netns/${netns}`, "curl", "-sf", url];
    try {
      await eventually(`${process.logFile} to be ready`, async () => {
        if (!process.isRunning) return true;
        await run("nsenter", args);
        return true;
      });
    } catch (cause) {
      throw new Error(`Cannot go on: ${await process.logs()}`, { cause });
    }
    assert.ok(process.isRunning, await process.logs());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const daemons = [...this.#states.values()].map(({ daemon }) => daemon);
    for (const process of [this.#controller, ...daemons]) await process?.stop();
    const mine = `coil-${this.plane.name}-pod-`;
    for (const netns of await listNetns()) {
      if (netns.startsWith(mine)) await run("ip", ["netns", "delete", netns]);
    }
    await this.plane[Symbol.asyncDispose]();
  }
}
