import type {
  AnnouncedPod,
  Announcement,
  Caller,
  EgressRef,
  Verdict,
} from "../../../lib/announce/mod.ts";
import { type Address, Prefix } from "../../../lib/inet/mod.ts";
import { type KubeClient, PODS } from "../../../lib/kube/mod.ts";
import type { AnnouncedClients } from "../clients/announced_clients.ts";
import {
  type ClientPod,
  clientPodOf,
  isClientPod,
} from "../clients/client_pod.ts";
import type { KernelSync } from "../kernel/kernel_sync.ts";
import type { NodeBlocks } from "./node_blocks.ts";

/** coild waits a second; the answer is of no use to it after that. */
const LIVE_GET_MS = 2_000;

/** No pod has these: "this" network, loopback, link-local, multicast and reserved; RFC 6890, RFC 4291. */
const NO_POD = [
  ...["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"],
  ...["::/127", "::ffff:0:0/96", "fe80::/10", "ff00::/8"],
].map((text) => Prefix.parse(text));

export interface AdmissionOptions {
  readonly client: Pick<KubeClient, "tryGet">;
  /** The Egress that is served here. */
  readonly egress: EgressRef;
  /** The user that may announce. */
  readonly user: string;
  /** The gateway's own addresses. */
  readonly ownAddresses: readonly Address[];
  /** The clients that are known, by `namespace/name`. */
  readonly pods: ReadonlyMap<string, ClientPod>;
  readonly blocks: Pick<NodeBlocks, "problemOf">;
  readonly announced: Pick<AnnouncedClients, "add">;
  readonly sync: Pick<KernelSync, "flushed">;
  /** Why nobody can be let in now; undefined when it is possible. */
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
    const pod = await this.#find(announcement.pod, signal);
    if (pod === undefined) return refused(404, "the pod does not exist");
    if (pod === "no client") {
      return refused(403, "the pod's annotations do not name this Egress");
    }
    if (pod.nodeName === undefined || pod.nodeName !== caller.nodeName) {
      return refused(403, "the pod is not on the node of the token");
    }
    const { nodeName: node } = pod;
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
    if (caller.username !== user) return `"${user}" may announce, nobody else`;
    if (caller.nodeName === undefined) {
      return "the token does not contain its pod's node; Kubernetes 1.30 or newer is needed";
    }
    if (egress.namespace !== own.namespace || egress.name !== own.name) {
      return `this gateway serves Egress "${own.namespace}/${own.name}"`;
    }
    const odd = addresses.find((address) =>
      NO_POD.some((prefix) => prefix.contains(address)) ||
      ownAddresses.some((mine) => mine.equals(address))
    );
    return odd === undefined ? undefined : `no client has the address ${odd}`;
  }

  /** The API server is asked once when the pod is not known here, which is behind it by a moment. */
  async #find(
    { namespace, name, uid }: AnnouncedPod,
    signal: AbortSignal,
  ): Promise<ClientPod | "no client" | undefined> {
    const { client, egress, pods } = this.#options;
    const known = pods.get(`${namespace}/${name}`);
    if (known?.uid === uid) return known;
    const pod = await client.tryGet(PODS, {
      namespace,
      name,
      signal,
      timeoutMs: LIVE_GET_MS,
    });
    if (pod?.metadata?.uid !== uid) return undefined;
    return isClientPod(pod, egress) ? clientPodOf(pod) : "no client";
  }
}

function refused(status: 403 | 404 | 503, reason: string): Verdict {
  return { status, reason };
}
