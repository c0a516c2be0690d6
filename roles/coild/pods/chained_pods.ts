import type { KeyedMutex } from "../../../lib/async/mod.ts";
import {
  type AttachmentKey,
  CURRENT_CNI_VERSION,
  keyOf,
  keyText,
  type Result,
} from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { ChainedNetwork, ChainedPod } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type {
  Attachments,
  CallOptions,
  Connected,
  ConnectOptions,
  GcOptions,
  LockedOptions,
} from "../calls/attachments.ts";
import { chainedAddresses } from "../calls/chained_addresses.ts";
import {
  type AddRequest,
  parseAdd,
  parseGc,
  requireChained,
} from "../calls/cni_request.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import { NetworkMemory } from "../network/memory.ts";
import type { PodFacts, PodSource } from "../cluster/pod_source.ts";
import { podAddressesByFamily, podName } from "../cluster/pod_status.ts";
import { type Attachment, POD_INTERFACE } from "../calls/attachment.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";

const log = getLogger("coild");

export interface ChainedPodsOptions {
  readonly network: ChainedNetwork;
  readonly pods: PodSource;
  readonly metrics: CoildMetrics;
  readonly locks: KeyedMutex;
}

/** The answer to ADD: the plugin goes on with the result of the one before it. */
const EMPTY: Result = {
  cniVersion: CURRENT_CNI_VERSION,
  interfaces: [],
  ips: [],
  routes: [],
  dns: {},
};

/**
 * Pods that another plugin connects, before coil in the list. They are known
 * by their UID, as upstream has it: a restarted daemon knows no container IDs.
 */
export class ChainedPods implements Attachments {
  readonly #with: ChainedPodsOptions;
  /** The key of each attachment that this process has seen, by that of its calls. */
  readonly #keys = new Map<
    string,
    { readonly call: AttachmentKey; readonly own: AttachmentKey }
  >();
  readonly #networks = new NetworkMemory();

  constructor(options: ChainedPodsOptions) {
    this.#with = options;
  }

  accept(request: AddRequest): void {
    requireChained(request);
  }

  async connect(
    request: AddRequest,
    pod: PodFacts,
    { held, signal, announcement }: ConnectOptions,
  ): Promise<Connected> {
    const { locks, metrics, network } = this.#with;
    const { ifname } = request;
    // Without an UID, of a pod that no cache has: only this process finds it again.
    const id = pod.uid ?? request.pod.uid ?? request.containerId;
    const key = { containerId: id, ifname };
    if (id !== request.containerId) {
      held.use(await locks.lock(keyText(key), { signal }));
    }
    const chained = { id, ifname, addresses: chainedAddresses(request) };
    const { addresses } = chained;
    const known = { pod, addresses, uid: pod.uid };
    announcement?.start(known);
    const { hostName } = await metrics.phase(
      "network",
      () => network.adopt({ ...chained, netnsPath: request.netns }),
    );
    this.#note(request, key);
    log.info("Took over a pod of another plugin", { veth: hostName });
    return {
      ...known,
      key,
      result: EMPTY,
      openNetns: this.#opener(chained),
      undo: async () => {
        await announcement?.[Symbol.asyncDispose]();
        await this.#undo(request, chained);
      },
    };
  }

  async disconnect(
    key: AttachmentKey,
    { held, signal }: LockedOptions & { readonly pod?: NamespacedName },
  ): Promise<AttachmentKey> {
    const own = this.#keys.get(keyText(key))?.own;
    if (own === undefined) return key;
    if (own.containerId !== key.containerId) {
      held.use(await this.#with.locks.lock(keyText(own), { signal }));
    }
    this.#forget(key, own);
    return own;
  }

  async check(
    args: CniRequest,
    { signal }: CallOptions,
  ): Promise<AttachmentKey> {
    const { locks, network, pods } = this.#with;
    const request = parseAdd(args);
    using _lock = await locks.lock(keyText(request), { signal });
    const pod = await pods.find(request.pod, { signal });
    const id = pod.uid ?? request.pod.uid ?? request.containerId;
    await network.check({
      id,
      ifname: request.ifname,
      netnsPath: request.netns,
      addresses: chainedAddresses(request),
    });
    return { containerId: id, ifname: request.ifname };
  }

  /** Nothing is ours to release, but what is remembered. */
  async gc(args: CniRequest, { onReleased }: GcOptions): Promise<void> {
    const { network, valid } = parseGc(args);
    const stays = new Set(valid.map(keyText));
    for (const { call, own } of [...this.#keys.values()]) {
      if (stays.has(keyText(call))) continue;
      // What an ADD works on is not in the runtime's list yet.
      if (this.#with.locks.isLocked(keyText(call))) continue;
      if (this.#networks.networkOf(call) !== network) continue;
      this.#forget(call, own);
      onReleased(own);
    }
  }

  async find(
    pods: readonly V1Pod[],
  ): Promise<ReadonlyMap<string, Attachment>> {
    const { network } = this.#with;
    const sought = pods.map((pod) => {
      const id = pod.metadata?.uid ?? "";
      const addresses = podAddressesByFamily(pod);
      return { id, ifname: POD_INTERFACE, addresses, pod: podName(pod) };
    });
    const found = await network.find(sought.filter(({ id }) => id !== ""));
    return new Map(
      found.map((
        { pod, ...chained },
      ) => [nameText(pod), {
        key: { containerId: chained.id, ifname: chained.ifname },
        pod,
        uid: chained.id,
        addresses: chained.addresses,
        openNetns: this.#opener(chained),
      }]),
    );
  }

  /** Made apart, so that what is kept of an ADD does not hold the rest of it. */
  #opener(pod: ChainedPod): Attachment["openNetns"] {
    const { network } = this.#with;
    return () => network.openNetns(pod);
  }

  /** Of a pod's sandboxes the last one counts: a runtime may come back to the DEL of an earlier one. */
  #note(request: AddRequest, own: AttachmentKey): void {
    for (const [text, known] of this.#keys) {
      if (keyText(known.own) !== keyText(own)) continue;
      this.#keys.delete(text);
      this.#networks.forget(known.call);
    }
    this.#keys.set(keyText(request), { call: keyOf(request), own });
    this.#networks.remember(request, request.network);
  }

  #forget(call: AttachmentKey, own: AttachmentKey): void {
    this.#keys.delete(keyText(call));
    this.#networks.forget(call);
    this.#with.network.forget({ id: own.containerId, ifname: own.ifname });
  }

  async #undo(request: AddRequest, pod: ChainedPod): Promise<void> {
    try {
      this.#forget(request, { containerId: pod.id, ifname: pod.ifname });
      await this.#with.network.abandon(pod);
    } catch (error) {
      log.error("Cannot undo a failed ADD; its alias stays on the host link", {
        err: error,
      });
    }
  }
}
