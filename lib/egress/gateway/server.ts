import { Mutex } from "../../async/mod.ts";
import {
  type Address,
  type DualStack,
  FAMILIES,
  mapDualStack,
} from "../../inet/mod.ts";
import {
  type ConntrackCount,
  type NftCounter,
  RouteMonitor,
  TableMonitor,
} from "../../netlink/mod.ts";
import { FlowCounter, type FlowSummary } from "./flow_summary.ts";
import { prepareKernel } from "../kernel/modules.ts";
import { type AppliedServer, applyServer, clearServer } from "./apply.ts";
import {
  type AddressMap,
  admit,
  changeClients,
  type ClientChange,
  findClients,
  type FormerClients,
  type TunnelIndexes,
} from "./clients.ts";
import {
  openServerKernel,
  type ServerKernel,
  type ServerOptions,
} from "./kernel.ts";
import { findServerDamage } from "./inspect.ts";
import { type AppliedLimits, countNodes, listLimited } from "./limits.ts";
import type { ServerPlan } from "../gateway_plan/plan.ts";
import { counterName, type ServerCounterKind } from "../gateway_plan/table.ts";

/** What a gateway has counted since its table was made, by family served. */
export interface ServerCounters {
  /** Connections given the gateway's address, by their first packet. */
  readonly masqueraded: DualStack<NftCounter>;
  /** Packets that could not be translated, mostly since they belong to no connection: dropped instead of leaving with a client's address. */
  readonly invalid: DualStack<NftCounter>;
  /** Packets from outside that no client asked for, dropped. */
  readonly unsolicited: DualStack<NftCounter>;
  /** Encapsulated packets that no client sent, or whose inner source was forged, dropped. */
  readonly foreignFou: DualStack<NftCounter>;
  /** First packets of connections with which a client would have had more than its limit, dropped. */
  readonly limited: DualStack<NftCounter>;
}

const NOTHING: NftCounter = { packets: 0n, bytes: 0n };

/**
 * An egress gateway in the kernel of one network namespace. Everything it does lives
 * in the kernel, so disposing it leaves the gateway at work, and opening it again
 * finds its clients; only `clear()` removes a gateway. Calls may overlap: changes are carried out one by one.
 */
export class EgressServer implements Disposable {
  readonly #plan: ServerPlan;
  readonly #kernel: ServerKernel;
  readonly #options: ServerOptions;
  /** Guards what is in the kernel, `#links` and `#clients`. */
  readonly #turn = new Mutex();
  #links: TunnelIndexes;
  readonly #former: FormerClients = new Map();
  #limits: AppliedLimits;
  /** What the kernel has; undefined when a change failed half-way. */
  #clients: AddressMap | undefined;

  private constructor(
    plan: ServerPlan,
    state: {
      readonly kernel: ServerKernel;
      readonly options: ServerOptions;
      readonly applied: AppliedServer;
    },
  ) {
    this.#plan = plan;
    this.#kernel = state.kernel;
    this.#options = state.options;
    this.#links = state.applied.links;
    this.#clients = state.applied.clients;
    this.#limits = state.applied.limits;
  }

  /**
   * Makes a gateway of a namespace, or takes over the one that is there, also one of
   * upstream Coil's. Clients that are there stay until `setClients()`.
   *
   * @throws {FouUnsupportedError} when the kernel cannot do Foo over UDP
   * @throws {NetlinkError} when the kernel refuses something
   */
  // mutate: tests/vm/egress_server_test.ts does this; it takes a kernel with Foo over UDP.
  static async open(
    plan: ServerPlan,
    options: ServerOptions = {},
  ): Promise<EgressServer> {
    await prepareKernel(
      FAMILIES.filter((family) => plan.families[family] !== undefined),
    );
    using stack = new DisposableStack();
    const kernel = stack.use(openServerKernel(options));
    const server = await EgressServer.over(kernel, plan, options);
    stack.move();
    return server;
  }

  /** As `open()`, with these sockets, which go with the server. */
  static async over(
    kernel: ServerKernel,
    plan: ServerPlan,
    options: ServerOptions = {},
  ): Promise<EgressServer> {
    const applied = await applyServer(kernel, plan, options);
    return new EgressServer(plan, { kernel, options, applied });
  }

  /** How many clients there are. */
  get clientCount(): number {
    return this.#clients?.size ?? 0;
  }

  /** What each client may have at a time. It follows the kernel's settings whenever all is made whole. */
  get limits(): AppliedLimits {
    return this.#limits;
  }

  /**
   * Makes exactly these the clients. Compares all that makes a gateway
   * with the kernel, so it also repairs what others have changed there.
   *
   * @throws {NetlinkError} when the kernel refuses; the next call goes on from there
   */
  async setClients(addresses: readonly Address[]): Promise<ClientChange> {
    using _turn = await this.#turn.lock();
    const { clients: wanted, skipped } = admit(this.#plan, addresses);
    const present = await this.#makeWhole();
    const added = missingFrom(wanted, present);
    const removed = missingFrom(present, wanted);
    await this.#change({ add: added, remove: removed, result: wanted });
    return { added, removed, skipped };
  }

  /**
   * Adds and removes clients, without asking the kernel for the others. An address
   * in both is a client.
   *
   * @throws {NetlinkError} when the kernel refuses; the next call makes all whole, as `setClients()` does
   */
  async changeClients(
    change: {
      readonly add?: readonly Address[];
      readonly remove?: readonly Address[];
    },
  ): Promise<ClientChange> {
    using _turn = await this.#turn.lock();
    const { clients: wanted, skipped } = admit(this.#plan, change.add ?? []);
    const unwanted = admit(this.#plan, change.remove ?? []).clients;
    const present = this.#clients ?? await this.#makeWhole();
    const added = missingFrom(wanted, present);
    const removed = missingFrom(unwanted, wanted)
      .filter((client) => present.has(client.toString()));
    const result = new Map([...present, ...wanted]);
    for (const client of removed) result.delete(client.toString());
    await this.#change({ add: added, remove: removed, result });
    return { added, removed, skipped };
  }

  /**
   * What of the gateway another program has removed, in words. The contents of the
   * table of nftables are compared only with `table`. `setClients()` puts it back.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async findDamage(
    options: { readonly table?: boolean } = {},
  ): Promise<string[]> {
    using _turn = await this.#turn.lock();
    const { netns } = this.#options;
    return await findServerDamage(this.#kernel, {
      plan: this.#plan,
      clients: this.#clients ?? new Map(),
      netns,
      // After a change that failed half-way the whole state is set again anyway.
      table: options.table && this.#clients !== undefined
        ? { limits: this.#limits }
        : undefined,
    });
  }

  /** Listens to what others do to the gateway's network. */
  watch(): RouteMonitor {
    return RouteMonitor.open({
      interests: {
        rules: true,
        routes: [{ table: this.#plan.routeTable }],
        links: ["down", "gone"],
        forwarding: true,
      },
      ignoredPortIds: [this.#kernel.routes.portId],
      netns: this.#options.netns,
    });
  }

  /** Listens to what others do to the gateway's table of nftables. */
  watchTable(): TableMonitor {
    return TableMonitor.open({
      table: this.#plan.table.name,
      ignoredPortIds: [this.#kernel.netfilter.portId],
      netns: this.#options.netns,
    });
  }

  /** Reads what has been counted. @throws {NetlinkError} when the table is gone */
  async readCounters(): Promise<ServerCounters> {
    const counters = await this.#kernel.netfilter.readCounters(
      this.#plan.table.name,
    );
    const read = (kind: ServerCounterKind): DualStack<NftCounter> =>
      mapDualStack(
        this.#plan.families,
        (_, family) => counters.get(counterName(kind, family)) ?? NOTHING,
      );
    return {
      masqueraded: read("masqueraded"),
      invalid: read("invalid"),
      unsolicited: read("unsolicited"),
      foreignFou: read("foreign_fou"),
      limited: read("limited"),
    };
  }

  /** Goes through the kernel's connections; takes a few milliseconds for each ten thousand. `top` is how many destinations to return. */
  async flows(options: { readonly top?: number } = {}): Promise<FlowSummary> {
    // mutate: the kernel would tell the same, more slowly.
    const clients = this.#clients ??
      (await findClients(this.#kernel, this.#plan, this.#links)).all;
    const counter = new FlowCounter(clients.values());
    for (const family of FAMILIES) {
      if (this.#plan.families[family] === undefined) continue;
      const { conntrack } = this.#kernel;
      await conntrack.visit((flow) => counter.add(flow), { family });
    }
    return counter.summary(options.top ?? 10);
  }

  /** The clients that were refused a connection within the last five minutes, since they had as many as they may. */
  limitedClients(): Promise<Address[]> {
    return listLimited(this.#kernel, this.#plan);
  }

  /** How many nodes have probed the gateway within the last minute: those with clients that choose it. */
  probingNodes(): Promise<number> {
    return countNodes(this.#kernel, this.#plan);
  }

  /** Reads how full the table of connections is. */
  conntrack(): Promise<ConntrackCount> {
    return this.#kernel.conntrack.count();
  }

  /** Removes everything of the gateway from the kernel. Only `dispose` may be called afterwards. */
  async clear(): Promise<void> {
    using _turn = await this.#turn.lock();
    await clearServer(this.#kernel, this.#plan);
    this.#clients = new Map();
  }

  /** Closes the sockets; the gateway goes on. Harmless when done twice. */
  [Symbol.dispose](): void {
    this.#kernel[Symbol.dispose]();
  }

  /** Repairs what of the gateway is not as planned, and returns the clients found. Devices may be new. */
  async #makeWhole(): Promise<AddressMap> {
    this.#clients = undefined;
    const { links, clients, limits } = await applyServer(
      this.#kernel,
      this.#plan,
      this.#options,
    );
    this.#links = links;
    this.#limits = limits;
    this.#clients = clients;
    return clients;
  }

  async #change(
    change: {
      readonly add: readonly Address[];
      readonly remove: readonly Address[];
      readonly result: AddressMap;
    },
  ): Promise<void> {
    const { add, remove, result } = change;
    this.#clients = undefined;
    await changeClients(this.#kernel, this.#plan, {
      add,
      remove,
      links: this.#links,
      former: this.#former,
    });
    this.#clients = result;
  }
}

/** What is in the first map and not in the second. */
function missingFrom(wanted: AddressMap, present: AddressMap): Address[] {
  return wanted.entries().filter(([key]) => !present.has(key))
    .map(([, address]) => address).toArray();
}
