/**
 * A kernel that refuses changes, for tests of the coordinator.
 *
 * @module
 */
import type { Outside, Routes } from "../../lib/coordinator/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { type Request, routeAdd } from "../../lib/netlink/mod.ts";

/** Which change of the kernel is refused. */
export interface Countdown {
  /** How many are carried out before it. */
  left: number;
  /** Refuse all after it, too: the process is gone. */
  readonly andAllLater?: boolean;
}

/** Makes the kernel refuse a change of any kind. */
export function failing(
  at: Countdown,
): (outside: Outside) => Outside {
  const spoil = (socket: Routes): Routes => {
    const { tryExecute } = socket;
    const changed: Routes = {
      ...methodsOf(socket),
      async execute(requests) {
        for (const error of await changed.tryExecute(requests)) {
          if (error !== undefined) throw error;
        }
      },
      tryExecute: (requests) =>
        tryExecute.call(
          socket,
          requests.map((request) =>
            isChange(request) && isRefused(at) ? NONSENSE : request
          ),
        ),
    };
    return changed;
  };
  return (outside) => ({
    ...outside,
    openRoutes: (netns) => spoil(outside.openRoutes(netns)),
    writeSysctl(...args) {
      if (isRefused(at)) throw new Error("refused");
      outside.writeSysctl(...args);
    },
    openFilters(netns) {
      const filters = outside.openFilters(netns);
      return {
        compareTable: (table) => filters.compareTable(table),
        async deleteTable(name) {
          if (isRefused(at)) throw new Error("refused");
          return await filters.deleteTable(name);
        },
        async createTable(table) {
          if (isRefused(at)) throw new Error("refused");
          return await filters.createTable(table);
        },
        async replaceTable(table) {
          if (isRefused(at)) throw new Error("refused");
          return await filters.replaceTable(table);
        },
        [Symbol.asyncDispose]: () => filters[Symbol.asyncDispose](),
      };
    },
  });
}

/** Counts one change down: whether it is to be refused. */
export function isRefused(at: Countdown): boolean {
  const left = at.left--;
  return left === 0 || left < 0 && at.andAllLater === true;
}

function methodsOf(socket: Routes): Routes {
  return {
    execute: (requests) => socket.execute(requests),
    tryExecute: (requests) => socket.tryExecute(requests),
    getLink: (selector) => socket.getLink(selector),
    listLinks: () => socket.listLinks(),
    listAddresses: (filter) => socket.listAddresses(filter),
    listRoutes: (filter) => socket.listRoutes(filter),
    listRules: (filter) => socket.listRules(filter),
    listNeighbours: (filter) => socket.listNeighbours(filter),
    lookUpRoutes: (addresses) => socket.lookUpRoutes(addresses),
    [Symbol.dispose]: () => socket[Symbol.dispose](),
  };
}

/** A gateway that no route leads to. ENODEV and the like would count as gone. */
const NONSENSE = routeAdd({
  family: "ipv4",
  gateway: Address.parse("203.0.113.1"),
});

/** Not what only asks: RTM_GET… have the numbers 2 mod 4. */
function isChange(request: Request): boolean {
  return request.type % 4 !== 2;
}
