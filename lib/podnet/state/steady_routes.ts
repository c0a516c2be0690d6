import type { Address, Prefix } from "../../inet/mod.ts";
import type { Route, RouteSocket } from "../../netlink/mod.ts";

/** The most lists to ask for; each takes the kernel a millisecond or less. */
const MAX_LISTS = 6;

/**
 * Lists the routes of tables so that none is missing that was there all the time.
 *
 * The kernel writes a long list in parts. When an IPv6 table changes between
 * two of them, it starts over and skips as many entries as it has written
 * already (fib6_dump_table() in net/ipv6/ip6_fib.c), so others come twice or
 * never, and nothing in the answer shows it. An address without its route would
 * count as free. So the list is asked for until two in a row agree; if none do,
 * everything that any of them had is returned: a route too many is harmless.
 */
export async function listSteadyRoutes(
  socket: Pick<RouteSocket, "listRoutes">,
  tables: readonly number[],
): Promise<Route[]> {
  let routes: Route[] = [];
  for (const table of tables) {
    routes = [...routes, ...await listTable(socket, table)];
  }
  return routes;
}

/** Lists the addresses within the prefixes that a table has host routes to. */
export async function routedWithin(
  socket: Pick<RouteSocket, "listRoutes">,
  { table, prefixes }: {
    readonly table: number;
    readonly prefixes: readonly Prefix[];
  },
): Promise<Address[]> {
  const routes = await listTable(socket, table);
  return routes.flatMap(({ destination }) => {
    if (destination?.hostBits !== 0) return [];
    const { address } = destination;
    const isWithin = prefixes.some((prefix) => prefix.contains(address));
    return isWithin ? [address] : [];
  });
}

async function listTable(
  socket: Pick<RouteSocket, "listRoutes">,
  table: number,
): Promise<Route[]> {
  const all = new Map<string, Route>();
  let before: ReadonlyMap<string, Route> | undefined;
  for (let i = 0; i < MAX_LISTS; i++) {
    const list = byText(await socket.listRoutes({ table }));
    if (before !== undefined && sameKeys(before, list)) {
      return [...list.values()];
    }
    for (const [text, route] of list) all.set(text, route);
    before = list;
  }
  return [...all.values()];
}

function byText(routes: readonly Route[]): ReadonlyMap<string, Route> {
  return new Map(
    routes.map((route) => {
      const { destination, gateway, index, metric, table, protocol } = route;
      const parts = [destination, gateway, index, metric, table, protocol];
      return [parts.join(), route];
    }),
  );
}

function sameKeys(
  a: ReadonlyMap<string, unknown>,
  b: ReadonlyMap<string, unknown>,
): boolean {
  return a.size === b.size && [...a.keys()].every((key) => b.has(key));
}
