// coil-router by the product's own code, with a table in memory for the kernel's.
import { Registry } from "prom-client";
import { TaskGroup } from "../../lib/async/mod.ts";
import type { KubeClient } from "../../lib/kube/mod.ts";
import type {
  GatewayRoute,
  RouteChanges,
  RouteSyncer,
  SyncResult,
} from "../../lib/routing/mod.ts";
import { ClusterView } from "../../roles/coil_router/cluster_view.ts";
import { RouterMetrics } from "../../roles/coil_router/metrics.ts";
import { RouteBook } from "../../roles/coil_router/route_book.ts";
import { Router } from "../../roles/coil_router/router.ts";

/** coil-router compares all routes more often, which asks the API server for nothing. */
const COMPARE_MS = 600_000;

/** One life of a node's coil-router. */
export class ProductRouter {
  readonly #table = new RouteTable();
  readonly #group = new TaskGroup();

  constructor(client: KubeClient, node: string) {
    const book = new RouteBook(node);
    const view = new ClusterView(client, {
      book,
      onChange: () => router.trigger(),
      onRead() {},
    });
    const router = new Router({
      book,
      synced: () => view.synced(),
      routes: this.#table,
      metrics: new RouterMetrics(new Registry(), node),
      intervalMs: COMPARE_MS,
    });
    this.#group.runAll({
      ...view.loops,
      router: (signal) => router.run(signal),
    });
    void this.#group.wait();
  }

  /** The routes that it has set: `<destination> via <gateway>`. */
  get routes(): string[] {
    return this.#table.list();
  }

  kill(): void {
    this.#group.abort(new Error("killed"));
  }
}

/** The routes of a kernel that refuses none. */
class RouteTable implements Pick<RouteSyncer, "change" | "sync"> {
  readonly #gateways = new Map<string, string>();

  list(): string[] {
    return [...this.#gateways].map(([key, gateway]) => `${key} via ${gateway}`);
  }

  sync(
    { gateways }: Parameters<RouteSyncer["sync"]>[0],
  ): Promise<SyncResult> {
    const before = new Map(this.#gateways);
    this.#gateways.clear();
    const done = { added: 0, moved: 0 };
    for (const [key, gateway] of gateways) {
      const text = gateway.toString();
      const old = before.get(key);
      if (old === undefined) done.added++;
      else if (old !== text) done.moved++;
      before.delete(key);
      this.#gateways.set(key, text);
    }
    return answer({ ...done, removed: before.size });
  }

  change({ add, move, remove }: RouteChanges): Promise<SyncResult> {
    for (const route of [...add, ...move]) this.#set(route);
    for (const { destination } of remove) {
      this.#gateways.delete(destination.toString());
    }
    return answer({
      added: add.length,
      moved: move.length,
      removed: remove.length,
    });
  }

  #set({ destination, gateway }: GatewayRoute): void {
    this.#gateways.set(destination.toString(), gateway.toString());
  }
}

function answer(
  done: Pick<SyncResult, "added" | "moved" | "removed">,
): Promise<SyncResult> {
  return Promise.resolve({ ...done, failures: [], foreign: [] });
}
