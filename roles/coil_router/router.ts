import { abortable, Backoff, Gate, withTimeout } from "../../lib/async/mod.ts";
import type {
  GatewayRoute,
  RouteFailure,
  SyncResult,
} from "../../lib/routing/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { ClusterView } from "./cluster_view.ts";
import type { RouterMetrics } from "./metrics.ts";
import { planRoutes } from "./route_plan.ts";

const log = getLogger("route-syncer");

/** Changes come in bursts; the first is served at once, the next after this. */
const LEAST_PAUSE_MS = 100;

/** After somebody else's removals were mended: anyone who goes on with it does not make a storm. */
const REPAIR_PAUSE_MS = 500;

/** What {@linkcode Router} works with. */
export interface RouterDependencies {
  readonly nodeName: string;
  readonly view: Pick<ClusterView, "nodes" | "blocks" | "synced">;
  /** Makes the kernel's routes these; see RouteSyncer. */
  readonly sync: (routes: readonly GatewayRoute[]) => Promise<SyncResult>;
  readonly metrics: Pick<RouterMetrics, "synced" | "repaired">;
  /** The kernel's routes are checked this often although nothing changed. */
  readonly intervalMs: number;
  /** The shortest and longest pause after a failure. Default 1 s and 1 min. */
  readonly retryMs?: { readonly initialMs: number; readonly maxMs: number };
}

/**
 * Keeps the kernel's routes to other nodes' blocks as the cluster is: at once
 * after a change, again and again after a failure, and from time to time in
 * case somebody else changed them. It never gives up.
 */
export class Router {
  readonly #parts: RouterDependencies;
  readonly #backoff: Backoff;
  #changed = new Gate();
  #hasSynced = false;
  #hasRepaired = false;
  /** What the kernel had after the last synchronisation; undefined when that is not known for sure. */
  #last: ReadonlySet<string> | undefined;
  /** What was reported last, so that a lasting state is logged once. */
  #reported = { failures: "", withoutAddress: "" };

  constructor(parts: RouterDependencies) {
    this.#parts = parts;
    const maxMs = Math.min(60_000, parts.intervalMs);
    this.#backoff = new Backoff(parts.retryMs ?? { initialMs: 1_000, maxMs });
  }

  /** Whether the routes have been brought in once. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Says that the cluster has changed, or somebody else the routes. */
  trigger(): void {
    this.#changed.open();
  }

  /** Works until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await abortable(this.#parts.view.synced(), signal);
    while (!signal.aborted) {
      this.#changed = new Gate();
      const isWell = await this.#syncOnce();
      if (isWell) this.#backoff.reset();
      const pauseMs = isWell ? this.#parts.intervalMs : this.#backoff.nextMs();
      await this.#pause(pauseMs, signal);
    }
  }

  /** Waits for a change, at most so long, and at least a moment. */
  async #pause(maxMs: number, signal: AbortSignal): Promise<void> {
    const never = new Gate();
    const wait = (gate: Gate, ms: number): Promise<void> =>
      withTimeout(ms, (signal) => gate.wait({ signal }), { signal })
        .catch(() => {}); // the time is over, or the signal aborted
    const leastMs = this.#hasRepaired ? REPAIR_PAUSE_MS : LEAST_PAUSE_MS;
    await wait(never, Math.min(leastMs, maxMs));
    if (!signal.aborted) await wait(this.#changed, maxMs);
  }

  /** Returns whether all is as it should be. */
  async #syncOnce(): Promise<boolean> {
    const { nodeName, view, sync, metrics } = this.#parts;
    const { nodes, blocks } = view;
    const { routes, withoutAddress } = planRoutes({ nodeName, nodes, blocks });
    this.#reportMissing(withoutAddress);
    try {
      const { added, moved, removed, failures } = await sync(routes);
      if (added + moved + removed > 0) {
        const total = routes.length;
        log.info("Changed routes", { total, added, moved, removed });
      }
      this.#noteRepair(routes, { changed: added + moved, failures });
      this.#reportFailures(failures);
      metrics.synced({
        routes: routes.length - countMissing(routes, failures),
        failures: failures.length,
      });
      this.#hasSynced = true;
      return failures.length === 0;
    } catch (err) {
      this.#last = undefined;
      log.error("Cannot synchronise routes; retrying", { err });
      return false;
    }
  }

  /** More changes than new routes: somebody else had removed or moved some. */
  #noteRepair(
    routes: readonly GatewayRoute[],
    { changed, failures }: {
      readonly changed: number;
      readonly failures: readonly RouteFailure[];
    },
  ): void {
    const texts = routes.map((r) => `${r.destination} ${r.gateway}`);
    const last = this.#last;
    const fresh = texts.filter((text) => !last?.has(text)).length;
    this.#hasRepaired = last !== undefined && changed > fresh;
    // Routes that could not be set may be set the next time.
    this.#last = failures.length === 0 ? new Set(texts) : undefined;
    if (!this.#hasRepaired) return;
    this.#parts.metrics.repaired();
    log.warn("Restored routes that another program removed or changed", {
      routes: changed - fresh,
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

/** How many of the routes are not there; a failure may also be about one that should go. */
function countMissing(
  routes: readonly GatewayRoute[],
  failures: readonly RouteFailure[],
): number {
  const wanted = new Set(routes.map((route) => route.destination.toString()));
  return failures.filter(({ destination }) => wanted.has(destination)).length;
}
