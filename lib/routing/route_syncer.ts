import { Mutex } from "../async/mod.ts";
import type { Address } from "../inet/mod.ts";
import { MAIN_TABLE, type Route } from "../netlink/mod.ts";
import { ROUTER_PROTOCOL } from "../names/mod.ts";
import {
  applyPlan,
  conflictOf,
  type RouteDefaults,
  type RouteKernel,
  type SyncResult,
  syncRoutes,
  type WantedRoute,
} from "./apply.ts";

/** A route to a block of another node. */
export interface GatewayRoute extends WantedRoute {
  /** The other node's address, reachable without a router in between. */
  readonly gateway: Address;
}

/** All of our routes. */
export interface GatewayRoutes {
  /** The nodes' addresses, by destination as text. */
  readonly gateways: ReadonlyMap<string, Address>;
  /** Wanted through another gateway than the destination's: reported as failures. */
  readonly conflicting: readonly GatewayRoute[];
}

/** Changes of our routes, each by its destination. */
export interface RouteChanges {
  /** Destinations that have no route of ours. */
  readonly add: readonly GatewayRoute[];
  /** Destinations that have one through another gateway. */
  readonly move: readonly GatewayRoute[];
  /** Routes of ours that are no longer wanted. */
  readonly remove: readonly GatewayRoute[];
  /** Wanted through another gateway than the destination's route: reported as failures. */
  readonly conflicting: readonly GatewayRoute[];
}

export interface RouteSyncerOptions {
  /** Marks the routes that are ours. Default {@linkcode ROUTER_PROTOCOL}. */
  readonly protocolId?: number;
}

/**
 * Keeps direct routes to the blocks of other nodes in the main table, marked
 * by a protocol number of their own. A block that moves to another node is
 * replaced in one step, so there is no moment without a route; one gateway out
 * of reach stops no other route.
 */
export class RouteSyncer {
  readonly #kernel: RouteKernel;
  readonly #protocolId: number;
  #links: ReadonlySet<number> = new Set();
  /** Guards our routes between listing and changing them. */
  readonly #mutex = new Mutex();

  /** Changes nothing until asked to; the socket stays the caller's. */
  constructor(kernel: RouteKernel, options: RouteSyncerOptions = {}) {
    this.#kernel = kernel;
    this.#protocolId = options.protocolId ?? ROUTER_PROTOCOL;
  }

  /** The links that our routes left by when they were listed last. */
  get links(): ReadonlySet<number> {
    return this.#links;
  }

  /**
   * Makes our routes in the main table exactly these, given all of them. Only
   * ours are listed, since the table may hold the whole Internet's; another
   * program's route in our way shows up as a failure (EEXIST) and stays.
   *
   * @throws {NetlinkError} when the routes cannot be listed
   */
  async sync(wanted: GatewayRoutes): Promise<SyncResult> {
    using _lock = await this.#mutex.lock();
    const links = new Set<number>();
    const result = await syncRoutes(this.#kernel, wanted.gateways, {
      ...this.#defaults,
      onRoute: ({ index }) => index !== undefined && links.add(index),
    });
    this.#links = links;
    const failures = [
      ...wanted.conflicting.map(conflictOf),
      ...result.failures,
    ];
    return { ...result, failures };
  }

  /**
   * Makes these changes to our routes without listing any: for a caller that
   * knows what the table has. What it did not know shows up as a failure, such
   * as EEXIST, or does no harm; {@linkcode RouteSyncer.sync} puts it right.
   */
  async change(changes: RouteChanges): Promise<SyncResult> {
    using _lock = await this.#mutex.lock();
    const remove = changes.remove.map((route): Route => ({
      ...route,
      ...this.#defaults,
      family: route.destination.family,
      scope: "global",
      type: "unicast",
    }));
    const plan = { ...changes, remove };
    const result = await applyPlan(this.#kernel, plan, this.#defaults);
    const failures = [
      ...changes.conflicting.map(conflictOf),
      ...result.failures,
    ];
    return { ...result, failures, foreign: [] };
  }

  get #defaults(): RouteDefaults {
    return { table: MAIN_TABLE, protocol: this.#protocolId };
  }
}
