import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import type { RouteSocket } from "../../netlink/mod.ts";
import { addressesByLink, type PodLink } from "./survey.ts";

/** Cached facts about a pod. */
interface KnownPod {
  readonly addresses: DualStack<Address>;
  /** Where this process set it up. */
  readonly netnsPath?: string;
}

/** Cache of pods' links by index, which saves listing at DEL. The kernel has all of it, except the paths. */
export class KnownPods {
  readonly #lists: RouteSocket;
  readonly #tableId: number;
  readonly #pods = new Map<number, KnownPod>();

  /** `lists` is for listing what is not remembered. */
  constructor(lists: RouteSocket, options: { readonly tableId: number }) {
    this.#lists = lists;
    this.#tableId = options.tableId;
  }

  /** Notes what was just made. */
  set(index: number, made: KnownPod): void {
    this.#pods.set(index, { ...this.#pods.get(index), ...made });
  }

  /** Whether a link is known for a pod's. */
  has(index: number): boolean {
    return this.#pods.has(index);
  }

  /** Forgets a link that is going away. */
  forget(index: number): void {
    this.#pods.delete(index);
  }

  /**
   * Takes over what a survey saw, and forgets what is no longer present. A
   * link that came since the listing may be forgotten: its routes are listed
   * when needed. What `set()` was given is known better than by a list, which
   * may be older than some of it.
   */
  learn(pods: readonly PodLink[], present: ReadonlySet<number>): void {
    for (const index of this.#pods.keys()) {
      if (!present.has(index)) this.forget(index);
    }
    for (const { index, addresses } of pods) {
      if (this.#pods.has(index) || valuesOf(addresses).length === 0) continue;
      this.set(index, { addresses });
    }
  }

  /** The path of the network namespace in which this process set the pod up. */
  netnsPathOf(index: number): string | undefined {
    return this.#pods.get(index)?.netnsPath;
  }

  /** The addresses of the pod, by the host's routes where nothing is remembered. */
  async addressesOf(index: number): Promise<DualStack<Address>> {
    const known = this.#pods.get(index);
    if (known !== undefined) return known.addresses;
    const table = this.#tableId;
    const routes = await this.#lists.listRoutes({ table });
    const byLink = addressesByLink(routes, (route) => route.table === table);
    return byLink.get(index) ?? {};
  }
}
