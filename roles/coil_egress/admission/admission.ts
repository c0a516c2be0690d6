import type {
  AnnouncedPod,
  Announcement,
  Caller,
  Verdict,
} from "../../../lib/announce/mod.ts";
import { type Address, Prefix } from "../../../lib/inet/mod.ts";
import { misdirected } from "../base/identity.ts";
import { refused } from "../base/verdict.ts";
import type { AnnouncedClients } from "../clients/announced_clients.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { ClientWatcher } from "../clients/client_watcher.ts";
import type { KernelSync } from "../kernel/kernel_sync.ts";
import type { ControllerLease } from "./controller_lease.ts";
import type { NodeBlocks } from "./node_blocks.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** How long to wait for the slice that has the pod; coild waits a second for the answer. */
const SLICE_MS = 800;

/** No pod has these: "this" network, loopback, link-local, multicast and reserved; RFC 6890, RFC 4291. */
const NO_POD = [
  ...["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"],
  ...["::/127", "::ffff:0:0/96", "fe80::/10", "ff00::/8"],
].map((text) => Prefix.parse(text));

export interface AdmissionOptions {
  /** The Egress that is served here. */
  readonly egress: NamespacedName;
  /** The user that may announce. */
  readonly user: string;
  /** The gateway's own addresses. */
  readonly ownAddresses: readonly Address[];
  readonly clients: Pick<ClientWatcher, "pods" | "find">;
  readonly controller: Pick<ControllerLease, "isAway">;
  readonly blocks: Pick<NodeBlocks, "problemOf">;
  readonly announced: Pick<AnnouncedClients, "add">;
  readonly sync: Pick<KernelSync, "flushed">;
  /** Why no client can be let in now; undefined when it is possible. */
  readonly closedBecause: () => string | undefined;
}

/** Decides on announcements; see docs/decisions/0018-announcement-tokens.md for what is checked, and why. */
export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Lets a client in ahead of its status: it is served when this returns 204. */
  async admit(
    announcement: Announcement,
    { caller, signal }: {
      readonly caller: Caller;
      readonly signal: AbortSignal;
    },
  ): Promise<Verdict> {
    const { announced, blocks, sync, closedBecause } = this.#options;
    const closed = closedBecause();
    if (closed !== undefined) return refused(503, closed);
    const wrong = this.#problemOf(announcement, caller);
    if (wrong !== undefined) return refused(403, wrong);
    const { nodeName: node } = caller;
    const pod = await this.#find(announcement.pod, { node, signal });
    if (pod === undefined) {
      return refused(
        404,
        "the pod does not exist, or its annotations do not name this Egress",
      );
    }
    if (pod.nodeName !== node) {
      return refused(403, "the pod is not on the node of the token");
    }
    const { addresses, block } = announcement;
    const claim = { node, block, addresses };
    const problem = await blocks.problemOf(claim, { signal });
    if (problem !== undefined) return refused(403, problem);
    if (!announced.add(pod, addresses)) {
      return refused(404, "the pod is no longer a client");
    }
    await sync.flushed({ signal });
    return { status: 204 };
  }

  /** What can be said without looking for the pod. */
  #problemOf(
    { egress, addresses }: Announcement,
    caller: Caller,
  ): string | undefined {
    const { user, egress: own, ownAddresses } = this.#options;
    if (caller.username !== user) {
      return `only "${user}" may announce`;
    }
    if (caller.nodeName === undefined) {
      return "the token does not contain its pod's node; Kubernetes 1.30 or newer is needed";
    }
    const other = misdirected(egress, own);
    if (other !== undefined) return other;
    const odd = addresses.find((address) =>
      NO_POD.some((prefix) => prefix.contains(address)) ||
      ownAddresses.some((mine) => mine.equals(address))
    );
    return odd === undefined ? undefined : `no client has the address ${odd}`;
  }

  /**
   * The pod as its slice has it, which may come a moment later. While
   * coil-controller is away no slice will come: then the node's word counts,
   * for pods on that node.
   */
  async #find(
    { namespace, name, uid }: AnnouncedPod,
    { node, signal }: {
      readonly node: string | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<ClientPod | undefined> {
    const { clients, controller } = this.#options;
    if (
      node !== undefined && !clients.pods.has(uid) && await controller.isAway()
    ) return { namespace, name, uid, nodeName: node, addresses: [] };
    const pod = await clients.find(uid, { ms: SLICE_MS, signal });
    return pod?.namespace === namespace && pod.name === name ? pod : undefined;
  }
}
