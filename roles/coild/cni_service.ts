import type { KeyedMutex } from "../../lib/async/mod.ts";
import {
  CniError,
  CURRENT_CNI_VERSION,
  ErrorCode,
  type Result,
} from "../../lib/cni/mod.ts";
import type { CNIArgs } from "../../lib/cnirpc/mod.ts";
import { valuesOf } from "../../lib/inet/mod.ts";
import type { Allocation, NodeIpam } from "../../lib/ipam/mod.ts";
import { EGRESS_ANNOTATION_PREFIX } from "../../lib/names/mod.ts";
import type { PodNetwork, SetupResult } from "../../lib/podnet/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { explain } from "./address_errors.ts";
import type { BlockClient } from "./block_client.ts";
import {
  type AddRequest,
  parseAdd,
  parseKey,
  parsePodName,
  parseStrictKey,
} from "./cni_request.ts";
import { EgressUnsupportedError } from "./errors.ts";
import type { GarbageCollector } from "./garbage.ts";
import { keyText } from "./keys.ts";
import type { CoildMetrics } from "./metrics.ts";
import type { NetworkMemory } from "./network_memory.ts";
import type { PodEvents } from "./pod_events.ts";
import type { PodFacts, PodSource } from "./pod_source.ts";
import type { Readiness } from "./readiness.ts";
import type { Teardown } from "./teardown.ts";

const log = getLogger("coild");

/** What {@linkcode CniService} works with. */
export interface CniServiceOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  readonly pods: PodSource;
  readonly blocks: Pick<BlockClient, "poolNames">;
  readonly events: PodEvents;
  readonly metrics: CoildMetrics;
  readonly readiness: Readiness;
  readonly teardown: Teardown;
  readonly garbage: GarbageCollector;
  readonly networks: NetworkMemory;
  /** Guards everything about one attachment; shared with the reconciler. */
  readonly locks: KeyedMutex;
  /** Refuses pods that ask for an egress gateway, rather than leaving them without. */
  readonly enableEgress: boolean;
}

/**
 * Answers the CNI plugin: one method for each command.
 *
 * Calls about one attachment follow each other; calls about different ones
 * never wait for one another.
 */
export class CniService {
  readonly #with: CniServiceOptions;

  constructor(options: CniServiceOptions) {
    this.#with = options;
  }

  /** Connects a pod; see `docs/architecture.md` for the steps. */
  async add(
    args: CNIArgs,
    { signal }: { signal: AbortSignal },
  ): Promise<Result> {
    const { locks, metrics, readiness, events } = this.#with;
    using _inFlight = metrics.addStarted();
    const request = parseAdd(args);
    readiness.assertReady();
    using held = new DisposableStack();
    held.use(
      await metrics.phase(
        "lock",
        () => locks.lock(keyText(request), { signal }),
      ),
    );
    try {
      return await this.#attach(request, { held, signal });
    } catch (error) {
      events.addFailed(request.pod, error);
      throw error;
    }
  }

  /** Takes a pod off the network. Whatever is already gone is no error. */
  async del(args: CNIArgs, { signal }: { signal: AbortSignal }): Promise<void> {
    const key = parseKey(args);
    using held = new DisposableStack();
    held.use(await this.#with.locks.lock(keyText(key), { signal }));
    await this.#with.teardown.start(key, held, parsePodName(args));
    this.#with.networks.forget(key);
  }

  /** Compares a pod's network with what ADD made. */
  async check(
    args: CNIArgs,
    { signal }: { signal: AbortSignal },
  ): Promise<void> {
    const key = parseStrictKey(args);
    const { ipam, locks, network } = this.#with;
    using _lock = await locks.lock(keyText(key), { signal });
    // The kernel knows the addresses too, before IPAM has recovered them.
    const known = ipam.lookup(key) ??
      (await network.list()).find((pod) => keyText(pod) === keyText(key));
    await network.check({
      ...key,
      ...parsePodName(args),
      addresses: known?.addresses ?? {},
      ...(args.netns !== "" && { netnsPath: args.netns }),
    });
  }

  /** Releases what the runtime no longer has (CNI 1.1 GC). */
  async gc(args: CNIArgs, { signal }: { signal: AbortSignal }): Promise<void> {
    await this.#with.garbage.collect(args, { signal });
  }

  /**
   * Says whether ADD is served (CNI 1.1 STATUS).
   *
   * @throws {CniError} with code 50 and the reason when it is not.
   */
  status(): void {
    const { reason } = this.#with.readiness;
    if (reason === undefined) return;
    throw new CniError(`Cannot serve pods yet: ${reason}`, {
      code: ErrorCode.PLUGIN_NOT_AVAILABLE,
    });
  }

  async #attach(
    request: AddRequest,
    { held, signal }: { held: DisposableStack; signal: AbortSignal },
  ): Promise<Result> {
    const { metrics, networks, pods, teardown } = this.#with;
    const pool = await metrics.phase("pod", async () => {
      this.#refuseEgress(await pods.find(request.pod, { signal }));
      return await pods.poolOf(request.pod.namespace, { signal });
    });
    const allocation = await metrics.phase(
      "address",
      () => this.#allocate(request, pool, signal),
    );
    let interfaces: SetupResult;
    try {
      interfaces = await metrics.phase(
        "network",
        () => this.#connect(request, { allocation, signal }),
      );
    } catch (error) {
      await teardown.undo(keyOf(request), held, { pod: request.pod });
      throw error;
    }
    networks.remember(keyOf(request), request.network);
    log.info("Attached a pod", {
      pool,
      block: allocation.block,
      ...texts(allocation),
      veth: interfaces.hostName,
    });
    return resultOf(request, allocation, interfaces);
  }

  async #allocate(
    request: AddRequest,
    pool: string,
    signal: AbortSignal,
  ): Promise<Allocation> {
    const { blocks, ipam } = this.#with;
    try {
      return await ipam.allocate({ ...keyOf(request), pool }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw explain(error, {
        pod: request.pod,
        pool,
        poolNames: () => blocks.poolNames(),
        heldBlocks: () => ipam.blocks().filter((b) => b.pool === pool).length,
      });
    }
  }

  #connect(
    request: AddRequest,
    { allocation, signal }: {
      readonly allocation: Allocation;
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
    }, { signal });
  }

  /**
   * A pod whose traffic must leave by a gateway shall not run with the node's
   * address instead, unseen.
   */
  #refuseEgress(pod: PodFacts): void {
    if (!this.#with.enableEgress) return;
    const annotation = Object.keys(pod.annotations).find((name) =>
      name.startsWith(EGRESS_ANNOTATION_PREFIX)
    );
    if (annotation === undefined) return;
    throw new EgressUnsupportedError(
      `Cannot attach pod "${pod.namespace}/${pod.name}": annotation "${annotation}" asks for an egress gateway, ` +
        "which this release does not have; remove the annotation, or run coild with --enable-egress=false to ignore it",
    );
  }
}

function keyOf({ containerId, ifname }: AddRequest) {
  return { containerId, ifname };
}

function texts({ addresses }: Allocation): Record<string, string> {
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
