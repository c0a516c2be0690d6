import { settled } from "../../async/mod.ts";
import { inNetns, LinuxError, type Netns } from "../../linux/mod.ts";
import { EGRESS_NFT_TABLE } from "../../names/mod.ts";
import {
  type FouPort,
  FouSocket,
  FouUnsupportedError,
  linkGet,
  NetfilterSocket,
  NetlinkError,
  type Request,
  type Route,
  RouteSocket,
} from "../../netlink/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import {
  awaitsAddress,
  type Findings,
  findOut,
  wantedRoutes,
  wantedTable,
} from "./findings.ts";
import { makeFresh } from "./fresh.ts";
import { deleteLinks, renameFallbacks } from "./links.ts";
import type { ClientPlan } from "../plan/plan.ts";
import { type Changes, diffRoutes, refusals } from "../plan/routes.ts";
import { portsOf } from "./state.ts";
import {
  addFouPorts,
  fouPorts,
  removeFouPorts,
  sameFouPort,
} from "../kernel/fou_ports.ts";
import { forgetTunnels } from "../kernel/forget_tunnels.ts";
import { explainTunnelError } from "../kernel/modules.ts";
import { openReversePath } from "../kernel/reverse_path.ts";
import { TUNNEL_LINKS } from "../kernel/tunnel_names.ts";

/** What a run needs of its caller. */
export interface RunOptions {
  readonly netns: Netns;
  readonly signal?: AbortSignal;
}

const log = getLogger("egress");

/** Whether it is the kernel's refusal, and not another error. */
function isRefusal(error: unknown): boolean {
  return error instanceof NetlinkError || error instanceof LinuxError ||
    error instanceof FouUnsupportedError;
}

interface Sockets {
  readonly route: RouteSocket;
  readonly fou: FouSocket;
  readonly nft: NetfilterSocket;
}

/**
 * One application of a plan: reads, compares, sends. It has its sockets, each
 * opened once, and returns what it did.
 */
export class ClientRun implements Disposable {
  readonly #plan: ClientPlan;
  readonly #netns: Netns;
  readonly #signal: AbortSignal | undefined;
  readonly #sockets: Sockets;
  readonly #changes: string[] = [];
  /** What `create()` made. */
  #made: readonly Request[] = [];

  private constructor(plan: ClientPlan, options: RunOptions, sockets: Sockets) {
    this.#plan = plan;
    this.#netns = options.netns;
    this.#signal = options.signal;
    this.#sockets = sockets;
  }

  /** Opens the sockets. */
  static open(plan: ClientPlan, options: RunOptions): ClientRun {
    using stack = new DisposableStack();
    const sockets = inNetns(options.netns, (): Sockets => ({
      route: stack.use(RouteSocket.open()),
      fou: stack.use(FouSocket.open()),
      nft: stack.use(NetfilterSocket.open()),
    }));
    stack.move();
    return new ClientRun(plan, options, sockets);
  }

  /** What was done, one phrase each. */
  get changes(): readonly string[] {
    const made = this.#made.map((request) => request.describe());
    return [...made, ...this.#changes];
  }

  /**
   * Makes a new namespace what the plan says. False when it is not as new as
   * that, or the kernel refuses: then call `converge()`, which throws the reason.
   */
  async create(linkMtu: number): Promise<boolean> {
    // What that mode does depends on what is in the namespace.
    if (this.#plan.originatingOnly) return false;
    this.#signal?.throwIfAborted();
    try {
      const made = await makeFresh(this.#plan, {
        ...this.#sockets,
        netns: this.#netns,
        linkMtu,
      });
      this.#made = made ?? [];
      // mutate: converge() would find nothing to change, and only take longer.
      if (made !== undefined) return true;
      log.info(
        "Fast egress set-up rejected; falling back to incremental set-up",
      );
    } catch (err) {
      if (!isRefusal(err)) throw err;
      log.warn(
        "Fast egress set-up failed; falling back to incremental set-up",
        { err },
      );
    }
    return false;
  }

  /** Makes the namespace what the plan says. Returns whether a route lacks its source for now: {@linkcode awaitsAddress}. */
  async converge(): Promise<boolean> {
    const findings = await findOut(this.#plan, {
      ...this.#sockets,
      netns: this.#netns,
    });
    try {
      await this.#carryOut(findings);
      return awaitsAddress(this.#plan, findings);
    } catch (error) {
      await this.#failClosed(findings);
      throw error;
    }
  }

  /** Closes the sockets. */
  [Symbol.dispose](): void {
    for (const socket of Object.values(this.#sockets)) {
      socket[Symbol.dispose]();
    }
  }

  /** Each step can be the last one of a process: the next call goes on from there. */
  async #carryOut(findings: Findings): Promise<void> {
    await this.#step(() => this.#removePorts(findings));
    await this.#step(() => this.#openReversePath(["all", "default"]));
    const [indexes] = await settled([
      this.#step(() => this.#makeLinks(findings)),
      this.#receive(findings),
    ]);
    const routes = this.#diffRoutes(findings, indexes);
    await this.#step(() => this.#openReceiver(findings));
    await this.#step(() => this.#execute(routes.put));
    await this.#step(() => this.#removePaths(findings, routes));
    await this.#step(() => this.#removeLinks(findings));
    if (wantedTable(this.#plan, findings) === undefined) {
      await this.#step(() => this.#deleteTable());
    }
  }

  async #step<T>(run: () => T | Promise<T>): Promise<T> {
    this.#signal?.throwIfAborted();
    return await run();
  }

  /**
   * Ports that no tunnel of the plan uses. First of all: it is by the tunnels
   * that they are known, and these are changed later.
   */
  async #removePorts({ own, ports }: Findings): Promise<void> {
    const wanted = this.#wantedPorts();
    const surplus = portsOf(own.links).filter((port) =>
      !wanted.some((each) => sameFouPort(each, port)) &&
      ports.some((each) => sameFouPort(each, port))
    );
    this.#changes.push(...await removeFouPorts(this.#sockets.fou, surplus));
  }

  #wantedPorts(): FouPort[] {
    return fouPorts(this.#plan.tunnelFamilies, this.#plan.port);
  }

  /** A new link gets what `default` has, so that comes before links are made. */
  #openReversePath(
    open: readonly string[],
    loose: readonly string[] = [],
  ): void {
    if (!this.#plan.receiverFamilies.includes("ipv4")) return;
    const links = { open, loose };
    this.#changes.push(...openReversePath(this.#netns, links));
  }

  /** By the interface below as well: a gateway's own address may be one that is reached through a tunnel. */
  // mutate: tests/vm/egress_client_inspect_test.ts does this; it takes a kernel with Foo over UDP.
  #openReceiver({ interfaces, state }: Findings): void {
    const below = state.links.filter(({ name }) => name === this.#plan.ifname);
    const names = new Set([...below, ...interfaces].map(({ name }) => name));
    this.#openReversePath([TUNNEL_LINKS.ipv4.receiver], [...names]);
  }

  /** Rules and links. Returns the indexes of all wanted links by name. */
  async #makeLinks(
    { rules, links }: Findings,
  ): Promise<ReadonlyMap<string, number>> {
    const indexes = new Map(
      links.present.map(({ name, index }) => [name, index]),
    );
    const clear = links.conflicting.length === 0
      ? []
      : [...refusals(this.#plan.routes), ...deleteLinks(links.conflicting)];
    const changes = [...rules.put, ...clear, ...links.requests];
    const look = links.created.map((name) =>
      linkGet({ name }, ({ index }) => indexes.set(name, index))
    );
    if (changes.length + look.length === 0) return indexes;
    const errors = await this.#sockets.route.tryExecute([...changes, ...look]);
    const failed = errors.findIndex((error) => error !== undefined);
    const error = errors[failed];
    if (error !== undefined) {
      const ofLinks = failed >= changes.length - links.requests.length;
      throw ofLinks ? explainTunnelError(error) : error;
    }
    this.#done(changes);
    return indexes;
  }

  /**
   * The guard is there before the port. Links are made in the meantime: before the
   * guard a new receiver could only take plain IP in IP, on which no connection depends yet.
   */
  async #receive(findings: Findings): Promise<void> {
    const { fou, nft } = this.#sockets;
    const table = wantedTable(this.#plan, findings);
    if (table === undefined) return;
    if (await this.#step(() => nft.replaceTable(table))) {
      this.#changes.push(`replace nft table "${table.name}"`);
    }
    const ports = { wanted: this.#wantedPorts(), present: findings.ports };
    const added = await this.#step(() => addFouPorts(fou, ports));
    this.#changes.push(...added);
  }

  #diffRoutes(
    findings: Findings,
    indexes: ReadonlyMap<string, number>,
  ): Changes<Route> {
    const wanted = wantedRoutes(this.#plan, findings, indexes);
    return diffRoutes(wanted, findings.own.routes);
  }

  /**
   * Rules go before the routes they lead to, the last ones first: the cluster's
   * own networks are kept out of the wide table to the end.
   */
  async #removePaths({ rules }: Findings, routes: Changes): Promise<void> {
    await this.#remove([...rules.remove.toReversed(), ...routes.remove]);
  }

  async #removeLinks({ links, state }: Findings): Promise<void> {
    const families = this.#plan.receiverFamilies;
    // mutate: it takes a kernel with Foo over UDP; tests/vm/egress_e2e_faults_test.ts gives a Service another cluster address.
    await forgetTunnels(links.surplus);
    await this.#remove(deleteLinks(links.surplus));
    await this.#remove(renameFallbacks(state.links, families));
  }

  /** The kernel takes 10 ms to refuse the deletion of a table that is not there. */
  async #deleteTable(): Promise<void> {
    const { nft } = this.#sockets;
    if (!await nft.tableExists(EGRESS_NFT_TABLE)) return;
    if (await nft.deleteTable(EGRESS_NFT_TABLE)) {
      this.#changes.push(`delete nft table "${EGRESS_NFT_TABLE}"`);
    }
  }

  /** After a failure: nothing is to leave by another way, even if parts are missing. */
  async #failClosed({ rules }: Findings): Promise<void> {
    // The caller has given up; its next call goes on.
    if (this.#signal?.aborted) return;
    // A rule that is there twice does no harm; the next call removes it.
    const refuse = [...rules.put, ...refusals(this.#plan.routes)];
    try {
      const errors = await this.#sockets.route.tryExecute(refuse);
      for (const error of errors) if (error !== undefined) throw error;
    } catch (error) {
      log.error("Cannot reject the destinations of a failed egress client", {
        err: error,
      });
    }
  }

  async #execute(requests: readonly Request[]): Promise<void> {
    if (requests.length === 0) return;
    await this.#sockets.route.execute(requests);
    this.#done(requests);
  }

  /** Sends removals; what is gone already is fine. */
  async #remove(requests: readonly Request[]): Promise<void> {
    if (requests.length === 0) return;
    const errors = await this.#sockets.route.tryExecute(requests);
    for (const error of errors) {
      if (error !== undefined && !error.isAbsent) throw error;
    }
    this.#done(requests);
  }

  #done(requests: readonly Request[]): void {
    this.#changes.push(...requests.map((request) => request.describe()));
  }
}
