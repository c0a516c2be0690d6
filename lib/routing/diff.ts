import type { Address } from "../inet/mod.ts";
import { type Route, wasAddedBy } from "../netlink/mod.ts";

/** The wanted routes of a table: gateways by destination as text; undefined: straight to the device. */
export type WantedRoutes = ReadonlyMap<string, Address | undefined>;

/** Changes that make the routes of our protocol exactly the desired ones. */
export interface RouteDiff {
  /** Destinations that have no route of ours yet. */
  readonly add: readonly string[];
  /** Destinations whose route of ours goes elsewhere: to be replaced in one step, never deleted first. */
  readonly move: readonly string[];
  /** Routes of ours that are not wanted. */
  readonly remove: readonly Route[];
  /** Routes of other protocols, left alone. */
  readonly foreign: readonly Route[];
}

/**
 * Compares the wanted routes with those that are there, while the kernel lists them: of 50,000 routes it keeps only
 * those to be changed. The routes are of one table; default routes in it are passed over. A wanted
 * destination with a foreign route appears in none of the lists to do: the owner of that route keeps it. No I/O.
 */
export class RouteSieve {
  readonly #wanted: WantedRoutes;
  readonly #isOurs: (route: Route) => boolean;
  /** Wanted destinations whose route is there, and what else distinguishes it from another route there. */
  readonly #found = new Map<string, string>();
  readonly #forms = new Map<string, string>();

  /** `isOwnTable`: the table is Coil's; there, IPv6 routes of protocol `boot` are ours if the protocol is 0. */
  constructor(
    wanted: WantedRoutes,
    { protocol, isOwnTable = false }: {
      readonly protocol: number;
      readonly isOwnTable?: boolean;
    },
  ) {
    this.#wanted = wanted;
    this.#isOurs = (route) =>
      isOwnTable ? wasAddedBy(route, protocol) : route.protocol === protocol;
  }

  /** Takes note of a route that is right; whether it is anything else, and so is needed for the diff. */
  readonly keep = (route: Route): boolean => {
    const { destination, gateway, index, metric } = route;
    if (destination === undefined || destination.length === 0) return false;
    const key = destination.toString();
    const isRight = this.#isOurs(route) && this.#wanted.has(key) &&
      isSame(this.#wanted.get(key), gateway);
    if (!isRight) return true;
    const form = this.#shared(`${index} ${metric}`);
    const found = this.#found.get(key);
    if (found === undefined) this.#found.set(key, form);
    // Listed again, it is the same one: see distinct().
    return found !== undefined && found !== form;
  };

  /** What to do, given all routes that were to be kept. */
  diff(kept: readonly Route[]): RouteDiff {
    const odd = Map.groupBy(distinct(kept), textOf);
    const foreign: Route[] = [];
    const remove: Route[] = [];
    const move: string[] = [];
    const taken = new Set<string>();
    for (const [key, routes] of odd) {
      const ours = routes.filter(this.#isOurs);
      foreign.push(...routes.filter((route) => !this.#isOurs(route)));
      if (ours.length < routes.length) taken.add(key);
      const isOpen = this.#wanted.has(key) && !this.#found.has(key) &&
        ours.length === routes.length;
      // A route to be moved is replaced in place; any further one has to go.
      remove.push(...(isOpen ? ours.slice(1) : ours));
      if (isOpen) move.push(key);
    }
    const add = [...this.#wanted.keys()].filter((key) =>
      !this.#found.has(key) && !odd.has(key)
    );
    return { add, move, remove, foreign };
  }

  /** One text for all that are equal. */
  #shared(form: string): string {
    const known = this.#forms.get(form) ?? form;
    this.#forms.set(form, known);
    return known;
  }
}

/**
 * Each route once. A list may have one twice: the kernel starts an IPv6 list over when the table changes in the
 * meantime (fib6_dump_table() in net/ipv6/ip6_fib.c). Taken for two, one would be removed as superfluous, and with it
 * the only one there is.
 */
function distinct(routes: readonly Route[]): Route[] {
  const seen = new Set<string>();
  return routes.filter((route) => {
    const { gateway, index, metric, protocol } = route;
    const before = seen.size;
    seen.add([textOf(route), gateway, index, metric, protocol].join());
    return seen.size > before;
  });
}

function textOf({ destination }: Route): string {
  return String(destination);
}

function isSame(a: Address | undefined, b: Address | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}
