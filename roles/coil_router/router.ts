import { type Address, Prefix } from "../../lib/inet/mod.ts";
import { abortable, Backoff, Gate, sleep } from "../../lib/async/mod.ts";
import type {
  GatewayRoute,
  RouteChanges,
  RouteFailure,
  RouteSyncer,
  SyncResult,
} from "../../lib/routing/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { RouterMetrics } from "./metrics.ts";
import type { RouteBook } from "./route_book.ts";

const log = getLogger("route-syncer");

/** Changes come in bursts: the first is served at once, the next after a pause, longer while they go on coming. */
const PAUSE = { initialMs: 100, maxMs: 500, jitter: 0 };
/** After removals by another program were repaired: if it goes on removing, that makes no storm. */
const REPAIR_PAUSE_MS = 500;

/**
 * A whole comparison lists all our routes, 50,000 in a large cluster. Without
 * a reason one comes after so many times as long as the last one took, with
 * one after so many.
 */
const REST = { idle: 300, asked: 20 };
/** The random part of the time: nodes that were started together do not compare together. */
const JITTER = 0.5;

export interface RouterDependencies {
  /** The routes that the cluster asks for. */
  readonly book: Pick<
    RouteBook,
    "claimsOn" | "routes" | "takeChanged" | "withoutAddress"
  >;
  /** Resolves when the book is complete. */
  readonly synced: () => Promise<void>;
  /** Changes the kernel's routes. */
  readonly routes: Pick<RouteSyncer, "change" | "sync">;
  readonly metrics: Pick<RouterMetrics, "synced" | "repaired">;
  /** All of the kernel's routes are checked about this often although nothing changed. */
  readonly intervalMs: number;
  /** The shortest and longest pause after a failure. Default 1 s and 1 min. */
  readonly retryMs?: { readonly initialMs: number; readonly maxMs: number };
}

/**
 * Keeps the kernel's routes to other nodes' blocks as the cluster is. A change
 * of a block changes its routes alone, at once; all routes are compared at the
 * start, when another program changed some, and from time to time. What fails is
 * tried again and again. It never gives up.
 */
export class Router {
  readonly #with: RouterDependencies;
  readonly #backoff: Backoff;
  readonly #bursts = new Backoff(PAUSE);
  #changed = new Gate();
  #hasSynced = false;
  /** Whether another program may have changed routes since the last comparison began. */
  #isSuspect = false;
  /** The gateways of our routes in the kernel, by destination; undefined when that is not known for sure. */
  #applied: Map<string, Address> | undefined;
  /** Destinations to be tried again. */
  #failed = new Set<string>();
  /** When all routes are compared next, and when that may be at the earliest. */
  #compare = { atMs: 0, earliestMs: 0 };
  /** What was reported last, so that a lasting state is logged once. */
  #reported = { failures: "", withoutAddress: "" };

  constructor(dependencies: RouterDependencies) {
    this.#with = dependencies;
    const { intervalMs, retryMs } = dependencies;
    const maxMs = Math.min(60_000, intervalMs);
    this.#backoff = new Backoff(retryMs ?? { initialMs: 1_000, maxMs });
  }

  /** Whether the routes have been brought in once. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Says that the cluster has changed. */
  trigger(): void {
    this.#changed.open();
  }

  /** Says that another program may have changed the kernel's routes. */
  distrust(): void {
    this.#isSuspect = true;
    this.#changed.open();
  }

  /** Works until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await abortable(this.#with.synced(), signal);
    while (!signal.aborted) {
      this.#changed = new Gate();
      const isWell = await this.#work();
      if (isWell) this.#backoff.reset();
      const restMs = Math.max(0, this.#dueMs - performance.now());
      const retryMs = isWell ? restMs : this.#backoff.nextMs();
      const isKnown = this.#applied !== undefined;
      await this.#pause(isKnown ? Math.min(restMs, retryMs) : retryMs, signal);
    }
  }

  /** When all routes are to be compared. */
  get #dueMs(): number {
    const { atMs, earliestMs } = this.#compare;
    return this.#isSuspect ? Math.min(atMs, earliestMs) : atMs;
  }

  /** Waits for a change, at most `maxMs`, and at least a moment. */
  async #pause(maxMs: number, signal: AbortSignal): Promise<void> {
    const leastMs = Math.min(this.#bursts.nextMs(), maxMs);
    // Aborted or not: run() looks.
    await sleep(leastMs, { signal }).catch(() => {});
    if (signal.aborted || this.#changed.isOpen) return;
    this.#bursts.reset();
    await this.#changed.waitAtMost(maxMs, { signal }).catch(() => {});
  }

  /** Returns whether all is as it should be. */
  async #work(): Promise<boolean> {
    this.#reportMissing(this.#with.book.withoutAddress);
    const isDue = performance.now() >= this.#dueMs;
    try {
      if (this.#applied === undefined || isDue) await this.#compareAll();
      else await this.#changeSome(this.#applied);
      return this.#failed.size === 0;
    } catch (err) {
      this.#applied = undefined;
      log.error("Cannot synchronise routes; retrying", { err });
      return false;
    }
  }

  async #compareAll(): Promise<void> {
    const { book, routes } = this.#with;
    book.takeChanged();
    const wanted = book.routes();
    const before = this.#applied;
    this.#applied = undefined;
    this.#isSuspect = false;
    const startMs = performance.now();
    const result = await routes.sync(wanted);
    const tookMs = performance.now() - startMs;
    const applied = wanted.gateways;
    let fresh = 0;
    for (const [key, gateway] of applied) {
      if (before?.get(key)?.equals(gateway) !== true) fresh++;
    }
    for (const failure of result.failures) {
      const { destination } = failure;
      if (isOf(failure, applied.get(destination))) applied.delete(destination);
    }
    this.#applied = applied;
    const restored = before ? result.added + result.moved - fresh : 0;
    this.#noteRepair(restored);
    this.#rest(tookMs, { hasRepaired: restored > 0 });
    this.#note(result, new Set());
  }

  async #changeSome(applied: Map<string, Address>): Promise<void> {
    const { book, routes } = this.#with;
    const keys = new Set([...book.takeChanged(), ...this.#failed]);
    // As the book is now: it goes on changing while the kernel works.
    const claims = new Map([...keys].map((key) => [key, book.claimsOn(key)]));
    const changes = changesOf(claims, applied);
    if (Object.values(changes).every(({ length }) => length === 0)) {
      for (const key of keys) this.#failed.delete(key);
      return;
    }
    const result = await routes.change(changes);
    const failed = Map.groupBy(
      result.failures,
      ({ destination }) => destination,
    );
    for (const [key, [route]] of claims) {
      const gateway = route?.gateway ?? applied.get(key);
      if (failed.get(key)?.some((f) => isOf(f, gateway))) continue;
      if (route === undefined) applied.delete(key);
      else applied.set(key, route.gateway);
    }
    this.#note(result, keys);
  }

  /** Records what was done; of the destinations in question, all others stay as they were. */
  #note(result: SyncResult, keys: ReadonlySet<string>): void {
    const { added, moved, removed, failures } = result;
    const applied = this.#applied ?? new Map();
    if (keys.size === 0) this.#failed.clear();
    for (const key of keys) this.#failed.delete(key);
    for (const { destination } of failures) this.#failed.add(destination);
    if (added + moved + removed > 0) {
      const total = applied.size;
      log.info("Changed routes", { total, added, moved, removed });
    }
    this.#reportFailures(failures);
    this.#with.metrics.synced({
      routes: applied.size,
      failures: this.#failed.size,
    });
    this.#hasSynced = true;
  }

  /** Decides when all routes are compared again. */
  #rest(tookMs: number, { hasRepaired }: { hasRepaired: boolean }): void {
    const nowMs = performance.now();
    const { intervalMs } = this.#with;
    const idleMs = Math.max(intervalMs, REST.idle * tookMs);
    const askedMs = Math.max(
      hasRepaired ? REPAIR_PAUSE_MS : 0,
      REST.asked * tookMs,
    );
    this.#compare = {
      atMs: nowMs + idleMs * (1 - JITTER * Math.random()),
      earliestMs: nowMs + askedMs,
    };
  }

  /** More changes than new routes: another program had removed or moved some. */
  #noteRepair(routes: number): void {
    if (routes <= 0) return;
    this.#with.metrics.repaired();
    log.warn("Restored routes that another program removed or changed", {
      routes,
    });
  }

  #reportMissing(nodes: readonly string[]): void {
    const text = nodes.join();
    if (text === this.#reported.withoutAddress) return;
    this.#reported.withoutAddress = text;
    if (text === "") return;
    log.warn("Nodes have blocks of a family in which they have no address", {
      nodes,
    });
  }

  #reportFailures(failures: readonly RouteFailure[]): void {
    const lines = failures.map(({ destination, gateway, error }) =>
      `${destination} via ${gateway}: ${error.message}`
    );
    const text = lines.sort().join("\n");
    if (text === this.#reported.failures) return;
    this.#reported.failures = text;
    if (text === "") {
      log.info("All routes are restored");
      return;
    }
    for (const { destination, gateway, error: err } of failures) {
      log.error("Cannot set route", { destination, gateway, err });
    }
  }
}

/** What to change at these destinations, given the wanted routes to each and what the kernel has. Pure. */
function changesOf(
  claims: ReadonlyMap<string, readonly GatewayRoute[]>,
  applied: ReadonlyMap<string, Address>,
): RouteChanges {
  const add: GatewayRoute[] = [];
  const move: GatewayRoute[] = [];
  const remove: GatewayRoute[] = [];
  const conflicting: GatewayRoute[] = [];
  for (const [key, [route, ...others]] of claims) {
    const old = applied.get(key);
    if (route === undefined) {
      if (old !== undefined) {
        remove.push({ destination: Prefix.parse(key), gateway: old });
      }
      continue;
    }
    if (old === undefined) add.push(route);
    else if (!old.equals(route.gateway)) move.push(route);
    conflicting.push(
      ...others.filter(({ gateway }) => !gateway.equals(route.gateway)),
    );
  }
  return { add, move, remove, conflicting };
}

/** Whether a failure is about the route by this gateway, not about another one to the same destination. */
function isOf(
  { gateway: failed }: RouteFailure,
  gateway: Address | undefined,
): boolean {
  return failed === undefined || failed === gateway?.toString();
}
