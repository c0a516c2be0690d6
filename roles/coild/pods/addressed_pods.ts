import type { ChosenPools } from "../../../lib/api/mod.ts";
import type { KeyedMutex } from "../../../lib/async/mod.ts";
import {
  type AttachmentKey,
  CURRENT_CNI_VERSION,
  keyOf,
  keyText,
  type Result,
} from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import {
  type Allocation,
  type NodeIpam,
  PoolNotFoundError,
} from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  isMarkedFor,
  type PodLink,
  type PodNetwork,
  type PodSources,
  type SetupResult,
} from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  explain,
  isExhaustion,
  poolAnnotationText,
} from "../observe/address_errors.ts";
import type {
  Attachments,
  CallOptions,
  Connected,
  ConnectOptions,
  GcOptions,
  LockedOptions,
} from "../calls/attachments.ts";
import type { Supply } from "../blocks/supply.ts";
import {
  type AddRequest,
  parsePodName,
  parseStrictKey,
  refuseChained,
} from "../calls/cni_request.ts";
import type { GarbageCollector } from "./garbage.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { NetworkMemory } from "../network/memory.ts";
import type { PodFacts, PodSource } from "../cluster/pod_source.ts";
import { podAddresses, podName } from "../cluster/pod_status.ts";
import { allocateFromFirst } from "./pool_fallback.ts";
import type { Teardown } from "./teardown.ts";
import { AddressError } from "../base/errors.ts";
import {
  DEFAULT_POOL,
  type NamespacedName,
  nameText,
} from "../../../lib/names/mod.ts";
import { type Attachment, POD_INTERFACE } from "../calls/attachment.ts";

const log = getLogger("coild");

export interface AddressedPodsOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  readonly pods: Pick<PodSource, "poolsOf" | "sourcesOf">;
  readonly blocks: Pick<
    Supply,
    "exports" | "finding" | "pool" | "poolNames"
  >;
  readonly metrics: CoildMetrics;
  readonly teardown: Teardown;
  readonly garbage: Pick<GarbageCollector, "collect">;
  readonly networks: NetworkMemory;
  readonly locks: KeyedMutex;
  /** Puts off what no caller needs to wait for. */
  readonly later: (work: () => void) => void;
}

/** Pods that coild itself gives their addresses and connects to the node. */
export class AddressedPods implements Attachments {
  readonly #with: AddressedPodsOptions;

  constructor(options: AddressedPodsOptions) {
    this.#with = options;
  }

  accept(request: AddRequest): void {
    refuseChained(request);
  }

  async connect(
    request: AddRequest,
    pod: PodFacts,
    { held, signal, announcement }: ConnectOptions,
  ): Promise<Connected> {
    const { blocks, metrics, networks, pods, teardown } = this.#with;
    const named = await pods.poolsOf(pod, { signal });
    const pools = this.#poolsFor(named, pod);
    const choice = await pods.sourcesOf(pod, { signal });
    const sources = choice === "any" ? "any" : "own";
    const allocation = await metrics.phase(
      "address",
      () =>
        allocateFromFirst(
          pools,
          (pool) => this.#allocate(request, { pool, from: named.from, signal }),
        ),
    );
    const { addresses } = allocation;
    const known = { pod, addresses, uid: pod.uid };
    if (blocks.exports) {
      announcement?.start({ ...known, block: allocation.block });
    }
    const key = keyOf(request);
    const undo = async (locks: DisposableStack) => {
      await announcement?.[Symbol.asyncDispose]();
      await teardown.undo(key, locks, { pod: request.pod });
    };
    let interfaces: SetupResult;
    try {
      interfaces = await metrics.phase(
        "network",
        () => this.#setUp(request, { allocation, sources, signal }),
      );
    } catch (error) {
      await undo(held);
      throw error;
    }
    networks.remember(key, request.network);
    // A record would keep the caller waiting for longer than anything else but the kernel.
    this.#with.later(() => logAttached(allocation, interfaces));
    return {
      ...known,
      key,
      undo,
      ...(interfaces.isFirst && interfaces.mtu > 0 &&
        { freshMtu: interfaces.mtu }),
      result: resultOf(request, allocation, interfaces),
      openNetns: this.#opener(key),
    };
  }

  async disconnect(
    key: AttachmentKey,
    { held, pod }: LockedOptions & { readonly pod?: NamespacedName },
  ): Promise<AttachmentKey> {
    const { ipam, networks, teardown } = this.#with;
    const known = ipam.lookup(key);
    await teardown.start(key, held, pod && { pod });
    networks.forget(key);
    if (known !== undefined) {
      const { pool, block } = known;
      log.info("Detached a pod", { pool, block, ...texts(known) });
    }
    return key;
  }

  async check(
    args: CniRequest,
    { signal }: CallOptions,
  ): Promise<AttachmentKey> {
    const key = parseStrictKey(args);
    const { ipam, locks, network } = this.#with;
    using _lock = await locks.lock(keyText(key), { signal });
    // The kernel knows the addresses too, before IPAM has recovered them.
    const known = ipam.lookup(key) ??
      (await network.list()).find((link) => keyText(link) === keyText(key));
    await network.check({
      ...key,
      ...parsePodName(args),
      addresses: known?.addresses ?? {},
      ...(args.netns !== "" && { netnsPath: args.netns }),
    });
    return key;
  }

  async gc(args: CniRequest, options: GcOptions): Promise<void> {
    await this.#with.garbage.collect(args, options);
  }

  /**
   * By their addresses. A status keeps an address for a while that may be
   * another pod's by now, so the link has to name the pod; of one that names
   * none, a pod that is about to go gets nothing.
   */
  async find(
    pods: readonly V1Pod[],
  ): Promise<ReadonlyMap<string, Attachment>> {
    const links = new Map<string, PodLink>();
    for (const link of await this.#with.network.list()) {
      if (link.ifname !== POD_INTERFACE) continue;
      for (const address of valuesOf(link.addresses)) {
        links.set(address.toString(), link);
      }
    }
    const found = new Map<string, Attachment>();
    for (const pod of pods) {
      const link = podAddresses(pod)
        .map((address) => links.get(address.toString()))
        .find((known) => known !== undefined && mayBeOf(known, pod));
      if (link === undefined) continue;
      const name = podName(pod);
      found.set(nameText(name), {
        key: keyOf(link),
        pod: name,
        uid: pod.metadata?.uid,
        addresses: link.addresses,
        byAddress: true,
        openNetns: this.#opener(keyOf(link)),
      });
    }
    return found;
  }

  /** @throws {AddressError} when the pod or its namespace names a pool where there are none */
  #poolsFor(
    { pools, from }: ChosenPools,
    pod: NamespacedName,
  ): readonly string[] {
    const { pool } = this.#with.blocks;
    if (pool === undefined) return pools;
    const other = pools.find((one) => one !== DEFAULT_POOL && one !== pool);
    if (other === undefined) return [pool];
    throw new AddressError(
      `Cannot give pod "${
        nameText(pod)
      }" an address of pool "${other}": this node's pods have addresses of the VPC; remove ${
        poolAnnotationText({ pod, from })
      }`,
      { cause: new PoolNotFoundError(other) },
    );
  }

  /** Made apart, so that what is kept of an ADD does not hold the rest of it. */
  #opener(key: AttachmentKey): Attachment["openNetns"] {
    const { network } = this.#with;
    return () => network.openNetns(key);
  }

  async #allocate(
    request: AddRequest,
    { pool, from, signal }: Pick<ChosenPools, "from"> & {
      readonly pool: string;
      readonly signal: AbortSignal;
    },
  ): Promise<Allocation> {
    const { blocks, ipam, metrics } = this.#with;
    try {
      return await ipam.allocate({ ...keyOf(request), pool }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isExhaustion(error)) metrics.poolExhausted(pool);
      throw explain(error, {
        pod: request.pod,
        pool,
        from,
        finding: blocks.finding?.(error),
        poolNames: () => blocks.poolNames(),
        heldBlocks: () => ipam.blocks().filter((b) => b.pool === pool).length,
      });
    }
  }

  #setUp(
    request: AddRequest,
    { allocation, sources, signal }: {
      readonly allocation: Allocation;
      readonly sources: PodSources;
      readonly signal: AbortSignal;
    },
  ): Promise<SetupResult> {
    return this.#with.network.setup({
      ...keyOf(request),
      // Of a pod attached before, its namespace may name another pool by now.
      pool: allocation.pool,
      netnsPath: request.netns,
      pod: request.pod,
      addresses: allocation.addresses,
      sources,
    }, { signal });
  }
}

function logAttached(
  allocation: Allocation,
  { hostName: veth }: SetupResult,
): void {
  const { pool, block } = allocation;
  log.info("Attached a pod", { pool, block, ...texts(allocation), veth });
}

function mayBeOf({ mac }: PodLink, pod: V1Pod): boolean {
  return isMarkedFor(mac, podName(pod)) ??
    pod.metadata?.deletionTimestamp === undefined;
}

function texts(
  { addresses }: Pick<Allocation, "addresses">,
): Record<string, string> {
  return Object.fromEntries(
    valuesOf(addresses).map((address) => [address.family, address.toString()]),
  );
}

/** IPv4 first, host prefixes, no gateway: as upstream. */
function resultOf(
  request: AddRequest,
  { addresses }: Allocation,
  { hostName, hostMac, podMac }: SetupResult,
): Result {
  return {
    cniVersion: CURRENT_CNI_VERSION,
    interfaces: [
      { name: request.ifname, mac: podMac, sandbox: request.netns },
      { name: hostName, mac: hostMac },
    ],
    ips: valuesOf(addresses).map((address) => ({
      address: `${address}/${address.bits}`,
      interface: 0,
    })),
    routes: [],
    dns: {},
  };
}
