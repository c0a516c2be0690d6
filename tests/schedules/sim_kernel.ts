/** A node's kernel, as far as pods' links and routes go; and the pod network over it, step by step. */
import { KeyedMutex } from "../../lib/async/mod.ts";
import {
  type Address,
  type DualStack,
  type Prefix,
  valuesOf,
} from "../../lib/inet/mod.ts";
import type {
  CheckRequest,
  CutOff,
  EndLack,
  Husk,
  InitReport,
  LinkAddresses,
  PodLink,
  PodNetwork,
  SeenLink,
  SeenTeardown,
  SetupRequest,
  SetupResult,
  Survey,
  Upkeep,
} from "../../lib/podnet/mod.ts";
import type { Life, Steps } from "./scheduler.ts";
import type { Faults } from "./sim_transport.ts";
import { type AttachmentKey, keyText } from "../../lib/cni/mod.ts";

/** A host veth. */
interface SimLink extends PodLink {
  /** Until the link is gone the pod has its addresses, with any routes or none. */
  readonly inPod: DualStack<Address>;
  readonly isHusk: boolean;
  /** Another program has removed its routes, and they are not back yet. */
  readonly isFlushed: boolean;
}

/** What outlives the daemon. */
export class SimKernel {
  readonly links: Map<number, SimLink> = new Map();
  #index = 0;

  /** Pods' links. */
  get pods(): SimLink[] {
    return [...this.links.values()].filter(({ isHusk }) => !isHusk);
  }

  add(key: AttachmentKey, pool: string): SimLink {
    const index = ++this.#index;
    const { containerId, ifname } = key;
    const link = {
      containerId,
      ifname,
      pool,
      index,
      hostName: `veth${index}`,
      addresses: {},
      inPod: {},
      up: true,
      isHusk: false,
      isFlushed: false,
    };
    this.links.set(index, link);
    return link;
  }

  /** Another program removes all routes to pods. */
  flush(): void {
    for (const { index, addresses } of this.pods) {
      if (valuesOf(addresses).length === 0) continue;
      this.change(index, { addresses: {}, isFlushed: true });
    }
  }

  change(index: number, change: Partial<SimLink>): void {
    const link = this.links.get(index);
    if (link !== undefined) this.links.set(index, { ...link, ...change });
  }
}

/** What a {@linkcode SimNetwork} works with. */
export interface SimNetworkOptions {
  readonly kernel: SimKernel;
  readonly scheduler: Steps;
  readonly life: Life;
  readonly faults: () => Faults;
}

const MAC = "02:00:00:00:00:01";

/** The methods of {@linkcode PodNetwork} that coild calls; each message to the kernel is a step of its own. */
export class SimNetwork implements Partial<Omit<PodNetwork, "upkeep">> {
  readonly mtu = 1500;
  readonly #with: SimNetworkOptions;
  readonly #locks = new KeyedMutex();

  constructor(options: SimNetworkOptions) {
    this.#with = options;
  }

  async init(): Promise<InitReport> {
    await this.#message("init");
    return { mtu: this.mtu, problems: [] };
  }

  setNodeAddresses(): void {}

  refreshRoutes(): Promise<number> {
    return Promise.resolve(0);
  }

  async setup(request: SetupRequest): Promise<SetupResult> {
    const { kernel } = this.#with;
    using _lock = await this.#locks.lock(keyText(request));
    await this.#message("look");
    const older = this.#find(request);
    if (older !== undefined) {
      await this.#message("remove an older one");
      kernel.links.delete(older.index);
    }
    await this.#message("create");
    const { index, hostName } = kernel.add(request, request.pool);
    try {
      await this.#message("route");
      const { addresses } = request;
      kernel.change(index, { addresses, inPod: addresses, isFlushed: false });
      await this.#message("finish");
    } catch (error) {
      kernel.links.delete(index);
      throw error;
    }
    const macs = { hostMac: MAC, podMac: MAC };
    const isFirst = older === undefined;
    return { hostName, hostIndex: index, ...macs, mtu: this.mtu, isFirst };
  }

  async beginTeardown(key: AttachmentKey): Promise<CutOff | undefined> {
    using _lock = await this.#locks.lock(keyText(key));
    await this.#message("find");
    const found = this.#find(key);
    if (found === undefined) return undefined;
    await this.#message("cut off");
    this.#with.kernel.change(found.index, { isHusk: true, addresses: {} });
    return { husk: huskOf(found) };
  }

  async beginTeardownOf(seen: SeenLink): Promise<SeenTeardown> {
    using _lock = await this.#locks.lock(keyText(seen));
    await this.#message("list links");
    const links = [...this.#with.kernel.links.values()].filter((link) =>
      keyText(link) === keyText(seen)
    );
    const found = links.find(({ index }) => index === seen.index);
    const isLast = links.every((link) => link === found);
    if (found === undefined) return { isLast, teardown: undefined };
    await this.#message("cut off");
    this.#with.kernel.change(found.index, { isHusk: true, addresses: {} });
    return { isLast, teardown: { husk: huskOf(found) } };
  }

  async finishTeardown({ husk }: CutOff): Promise<void> {
    await this.#message("delete");
    this.#with.kernel.links.delete(husk.index);
  }

  async finishHusks(): Promise<number> {
    const { husks } = await this.survey();
    await this.#message("delete all");
    for (const { index } of husks) this.#with.kernel.links.delete(index);
    return husks.length;
  }

  async list(): Promise<readonly PodLink[]> {
    return (await this.survey()).pods;
  }

  /** Links and routes are listed one after the other. */
  async survey(): Promise<Survey> {
    const { kernel } = this.#with;
    await this.#message("list links", { canFail: false });
    const links = [...kernel.links.values()];
    await this.#message("list routes", { canFail: false });
    const routesOf = (index: number) =>
      kernel.links.get(index)?.addresses ?? {};
    return {
      pods: links.filter(({ isHusk }) => !isHusk)
        .map((link) => ({ ...link, addresses: routesOf(link.index) })),
      husks: links.filter(({ isHusk }) => isHusk).map(huskOf),
      malformed: [],
      misplacedRoutes: [],
    };
  }

  async routedWithin(prefixes: readonly Prefix[]): Promise<Address[]> {
    await this.#message("list routes", { canFail: false });
    return this.#with.kernel.pods.flatMap(({ addresses }) =>
      valuesOf(addresses)
    ).filter((address) => prefixes.some((p) => p.contains(address)));
  }

  async check({ containerId, ifname }: CheckRequest): Promise<void> {
    await this.#message("check");
    const found = this.#find({ containerId, ifname });
    if (found === undefined || found.isHusk) throw new Error("no host link");
  }

  async findLostAddresses(
    lost: readonly PodLink[],
  ): Promise<ReadonlyMap<number, DualStack<Address>>> {
    await this.#message("ask pods", { canFail: false });
    return new Map(lost.flatMap(({ index }) => {
      const inPod = this.#with.kernel.links.get(index)?.inPod ?? {};
      return valuesOf(inPod).length === 0 ? [] : [[index, inPod] as const];
    }));
  }

  async addressesInNamespaces(): Promise<ReadonlyMap<string, string>> {
    await this.#message("ask namespaces", { canFail: false });
    const links = [...this.#with.kernel.links.values()];
    return new Map(
      links.flatMap(({ inPod, containerId }) =>
        valuesOf(inPod).map((address) => [`${address}`, containerId] as const)
      ),
    );
  }

  /** Of what is looked after, only the routes of pods' ends are simulated. */
  readonly upkeep: Pick<
    Upkeep,
    "listAddresses" | "findEndLacks" | "restoreEnd"
  > = {
    listAddresses: async (): Promise<LinkAddresses> => {
      await this.#message("list addresses", { canFail: false });
      return new Map();
    },
    findEndLacks: (
      { addresses: routed }: PodLink,
      { addresses }: { readonly addresses: DualStack<Address> },
    ): EndLack[] =>
      valuesOf(addresses).some(({ family }) => routed[family] === undefined)
        ? ["route"]
        : [],
    restoreEnd: async (
      pod: PodLink,
      addresses: DualStack<Address>,
    ): Promise<EndLack[]> => {
      await this.#message("look");
      const link = this.#with.kernel.links.get(pod.index);
      if (link === undefined || link.isHusk) return [];
      await this.#message("restore");
      this.#with.kernel.change(pod.index, {
        addresses,
        inPod: addresses,
        isFlushed: false,
      });
      return ["route"];
    },
  };

  openNetns(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  [Symbol.dispose](): void {}

  #find(key: AttachmentKey): SimLink | undefined {
    const all = [...this.#with.kernel.links.values()].filter((link) =>
      keyText(link) === keyText(key)
    );
    // A living one is found before its husks.
    return all.find(({ isHusk }) => !isHusk) ?? all[0];
  }

  /** One message: the kernel does it, or refuses it. */
  async #message(
    what: string,
    { canFail = true }: { readonly canFail?: boolean } = {},
  ): Promise<void> {
    const { scheduler, life, faults } = this.#with;
    await scheduler.point(`${life.name}: ${what}`, life);
    if (canFail && scheduler.random.chance(faults().kernel)) {
      throw new Error(`Cannot ${what}: simulated`);
    }
  }
}

function huskOf({ containerId, ifname, pool, index }: SimLink): Husk {
  return { containerId, ifname, pool, index };
}
