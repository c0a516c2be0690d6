/** What stands in for a routing daemon, and what watches whether pods can be reached. */
import { TaskGroup } from "../../lib/async/mod.ts";
import { CommandError, inNetns, type LabNode, sleep } from "../lab/mod.ts";
import type { CoildLab } from "./coild_lab.ts";
import type { LabKubelet, RunningPod } from "./migrator_kubelet.ts";

const PERIOD_MS = 200;
/** Generous: a lost packet is a failure, a slow machine is not. */
const PING_TIMEOUT_S = 10;
/** Marks the routes that are made here. */
const PROTOCOL = "77";

/**
 * Does what BIRD does with Coil's table 119: each node's routes in it become routes of all others, and of the machine
 * outside the cluster, which here is the control plane's namespace.
 */
export class RouteReflector implements AsyncDisposable {
  readonly #lab: CoildLab;
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  readonly #set = new Map<string, string>();
  #rounds = 0;

  constructor(lab: CoildLab) {
    this.#lab = lab;
    this.#tasks.run("routes", async () => {
      while (!this.#stop.signal.aborted) {
        await this.#round();
        this.#rounds++;
        await sleep(PERIOD_MS);
      }
    });
  }

  /** Resolves when what is exported now has been taken over. */
  async settled(): Promise<void> {
    const wanted = this.#rounds + 2;
    while (this.#rounds < wanted) await sleep(PERIOD_MS);
  }

  async #round(): Promise<void> {
    const exported = await Promise.all(
      this.#lab.nodes.map(async (node) => ({
        node,
        prefixes: await exportedBy(node),
      })),
    );
    const { netns } = this.#lab.plane;
    for (const target of [netns, ...this.#lab.nodes.map((n) => n.netns)]) {
      const wanted = new Map<string, string>();
      for (const { node, prefixes } of exported) {
        if (node.netns === target) continue;
        for (const prefix of prefixes) {
          wanted.set(prefix, node.addresses[0] ?? "");
        }
      }
      await this.#apply(target, wanted);
    }
  }

  async #apply(
    target: string,
    wanted: ReadonlyMap<string, string>,
  ): Promise<void> {
    for (const [prefix, via] of wanted) {
      const key = `${target} ${prefix}`;
      if (this.#set.get(key) === via) continue;
      await inNetns(target, "ip", [
        ...["route", "replace", prefix, "via", via, "proto", PROTOCOL],
      ]);
      this.#set.set(key, via);
    }
    for (const key of this.#set.keys()) {
      const [owner, prefix = ""] = key.split(" ");
      if (owner !== target || wanted.has(prefix)) continue;
      await inNetns(target, "ip", [
        ...["route", "delete", prefix, "proto", PROTOCOL],
      ]);
      this.#set.delete(key);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
  }
}

/** Destinations in a node's table 119, IPv4. */
export async function exportedBy(node: LabNode): Promise<string[]> {
  try {
    const text = await node.run(
      ...["ip", "-4", "-json", "route", "show", "table", "119"] as const,
    );
    const routes: readonly { readonly dst: string }[] = JSON.parse(text);
    return routes.map(({ dst }) => dst.includes("/") ? dst : `${dst}/32`)
      .sort();
  } catch (error) {
    // The table does not exist before its first route.
    if (error instanceof CommandError && /does not exist/.test(error.stderr)) {
      return [];
    }
    throw error;
  }
}

/** Pings every pod of v1 over and over, from outside the cluster and from another pod, as long as it is to live. */
export class ConnectivityProver implements AsyncDisposable {
  readonly #lab: CoildLab;
  readonly #kubelet: LabKubelet;
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  /** Pods that could not be reached although they were to live. */
  readonly failures: string[] = [];
  /** How often each pod was reached. */
  readonly reached: Map<string, number> = new Map();

  constructor(lab: CoildLab, kubelet: LabKubelet) {
    this.#lab = lab;
    this.#kubelet = kubelet;
    this.#tasks.run("pings", async () => {
      while (!this.#stop.signal.aborted) {
        await this.#round();
        await sleep(PERIOD_MS);
      }
    });
  }

  async #round(): Promise<void> {
    const pods = this.#kubelet.running.filter(({ network }) =>
      network === "v1"
    );
    for (const [i, pod] of pods.entries()) {
      if (this.#stop.signal.aborted) return;
      const from = pods[(i + 1) % pods.length];
      await this.#ping(pod, this.#lab.plane.netns, "outside");
      if (from === undefined || from === pod) continue;
      await this.#ping(
        pod,
        from.sandbox.netns,
        `${from.namespace}/${from.name}`,
        from,
      );
    }
  }

  async #ping(
    pod: RunningPod,
    netns: string,
    source: string,
    from?: RunningPod,
  ): Promise<void> {
    const key = `${pod.namespace}/${pod.name} ${pod.uid}`;
    try {
      await inNetns(netns, "ping", [
        ...["-n", "-q", "-c", "1", "-W", String(PING_TIMEOUT_S), pod.address],
      ]);
      this.reached.set(key, (this.reached.get(key) ?? 0) + 1);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      if (await this.#isEnding(pod) || await this.#isEnding(from)) return;
      this.failures.push(
        `${key} with ${pod.address} on ${pod.node.name} cannot be reached from ${source}: ${error.message}`,
      );
    }
  }

  /** Whether the API server was told to delete it: then it need not answer any more. */
  async #isEnding(pod: RunningPod | undefined): Promise<boolean> {
    if (pod === undefined) return false;
    if (!this.#kubelet.running.includes(pod) || pod.deleting) return true;
    const { namespace, name } = pod;
    try {
      const object = await this.#lab.plane.request(
        "GET",
        `/api/v1/namespaces/${namespace}/pods/${name}`,
      ) as { metadata: { uid: string; deletionTimestamp?: string } };
      const { uid, deletionTimestamp } = object.metadata;
      return uid !== pod.uid || deletionTimestamp !== undefined;
    } catch {
      return true; // it is gone
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
  }
}
