/** What stands in for a routing daemon. */
import { TaskGroup } from "../../lib/async/mod.ts";
import { CommandError, inNetns, type LabNode, sleep } from "../lab/mod.ts";
import type { CoildLab } from "./coild_lab.ts";

const PERIOD_MS = 200;
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
