import { type Address, FAMILIES, type Family } from "../../inet/mod.ts";
import {
  ERRNO,
  NETLINK_ROUTE,
  type Netns,
  openNetlink,
} from "../../linux/mod.ts";
import {
  type AddressEntry,
  parseAddress,
  writeAddressFilter,
} from "./address.ts";
import { Connection, type Transport } from "../connection/connection.ts";
import {
  RTM_GETADDR,
  RTM_GETLINK,
  RTM_GETNEIGH,
  RTM_GETROUTE,
  RTM_GETRULE,
  RTM_NEWADDR,
  RTM_NEWLINK,
  RTM_NEWNEIGH,
  RTM_NEWROUTE,
  RTM_NEWRULE,
} from "../message/constants.ts";
import { NetlinkError, refuseLost } from "../message/errors.ts";
import {
  type Link,
  type LinkSelector,
  parseLink,
  writeLinkFilter,
  writeLinkHeader,
} from "../link/link.ts";
import { linkGet } from "../link/link_requests.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import {
  type Neighbour,
  parseNeighbour,
  writeNeighbourFilter,
} from "./neighbour.ts";
import type { Request } from "../message/request.ts";
import { leadsOut, parseRoute, type Route } from "./route.ts";
import { parseRule, type Rule, writeRuleFilter } from "./rule.ts";
import { type Trace, traceFromEnvironment } from "../connection/trace.ts";
import type { AddressFilter, RouteFilter } from "./filters.ts";
import { routeLookUp, writeRouteFilter } from "./route_requests.ts";

/** Options of `RouteSocket.open()`. */
export interface RouteSocketOptions {
  /** The namespace to work in; without it, the process's own. No longer needed once open. */
  readonly netns?: Netns | undefined;
}

/**
 * Reads and changes the network of one namespace: links, addresses, routes,
 * rules, neighbours. Everything is sent on another thread, since the kernel may
 * hold its lock for many milliseconds; callers may share a socket and are served in turn.
 */
export class RouteSocket implements Disposable {
  readonly #connection: Connection;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Opens a socket in a namespace, with extended acknowledgements and strict checking.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(options: RouteSocketOptions = {}): RouteSocket {
    return RouteSocket.over(
      openNetlink(NETLINK_ROUTE, options),
      traceFromEnvironment(),
    );
  }

  /** Works over a given transport, which it takes over. */
  static over(transport: Transport, trace?: Trace): RouteSocket {
    return new RouteSocket(new Connection(transport, { trace }));
  }

  /** The number by which the kernel knows it: notifications of its changes carry it. */
  get portId(): number {
    return this.#connection.portId;
  }

  /**
   * Sends all requests at once and waits until they are carried out, in order.
   * The kernel goes on after one that failed: what came after it may be done.
   *
   * @throws {NetlinkError} for the first that failed, with its `index`
   */
  async execute(requests: readonly Request[]): Promise<void> {
    for (const error of await this.tryExecute(requests)) {
      if (error !== undefined) throw error;
    }
  }

  /** Encodes requests ahead: `tryExecute()` of this very array then only has to send. For a socket of one user. */
  prepare(requests: readonly Request[]): void {
    this.#connection.prepare(requests);
  }

  /** As `execute()`, but returns the outcome of each request: undefined for done. */
  tryExecute(
    requests: readonly Request[],
  ): Promise<(NetlinkError | undefined)[]> {
    return this.#connection.tryExecute(requests);
  }

  /**
   * Sends changes and asks for a link in one go: what `execute()` and then
   * `getLink()` would do in two.
   *
   * @throws {NetlinkError} for the first that failed; `ENODEV` when there is no such link
   */
  async executeAndGetLink(
    requests: readonly Request[],
    selector: LinkSelector,
  ): Promise<Link> {
    let found: Link | undefined;
    const get = linkGet(selector, (link) => found = link);
    await this.execute([...requests, get]);
    if (found === undefined) {
      throw new NetlinkError(get.describe(), { errno: ERRNO.ENODEV });
    }
    return found;
  }

  /** Looks a link up; undefined when there is none. @throws {NetlinkError} when the kernel refuses */
  async getLink(selector: LinkSelector): Promise<Link | undefined> {
    try {
      return await this.executeAndGetLink([], selector);
    } catch (error) {
      if (error instanceof NetlinkError && error.errno === ERRNO.ENODEV) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * By which route the kernel would send to each address, with the source it
   * would use; undefined where there is none. On the calling thread: for this
   * the kernel needs no lock (RTNL_FLAG_DOIT_UNLOCKED, since Linux 4.15).
   *
   * @throws {NetlinkError} when a request or its answer is lost
   */
  async lookUpRoutes(
    addresses: readonly Address[],
  ): Promise<(Route | undefined)[]> {
    const routes: (Route | undefined)[] = addresses.map(() => undefined);
    const requests = addresses.map((address, i) =>
      routeLookUp(address, (route) => routes[i] = route)
    );
    refuseLost(
      await this.#connection.tryExecute(requests, { onThread: true }),
    );
    return routes;
  }

  /** Lists all links. @throws {NetlinkError} when the kernel refuses, as all of these */
  listLinks(options: Pick<ListOptions, "atMost"> = {}): Promise<Link[]> {
    return this.#list("list links", {
      type: RTM_GETLINK,
      entryType: RTM_NEWLINK,
      parse: parseLink,
      write(writer) {
        writeLinkHeader(writer);
        writeLinkFilter(writer);
      },
    }, options);
  }

  /**
   * Lists addresses: of one link, of one family, or all. Of one link the kernel
   * does not report that they change while it lists more than fit into one part
   * (some hundred): then one may be missing, or come twice.
   */
  listAddresses(
    { keep = () => true, ...filter }: AddressFilter = {},
    options: ListOptions = {},
  ): Promise<AddressEntry[]> {
    return this.#list("list addresses", {
      type: RTM_GETADDR,
      entryType: RTM_NEWADDR,
      parse: (message) => {
        const entry = parseAddress(message);
        return entry !== undefined && keep(entry) ? entry : undefined;
      },
      write: (writer) => writeAddressFilter(writer, filter),
    }, options);
  }

  /**
   * Lists routes: of one table, family, protocol or link, or all of all tables.
   * The kernel does not report that IPv4 routes change while it lists them: one
   * that comes or goes in the meantime may be in the list or not.
   */
  listRoutes(
    filter: RouteFilter = {},
    options: ListOptions = {},
  ): Promise<Route[]> {
    // Whether a table exists is asked of each family.
    if (filter.table === undefined) return this.#listRoutesOf(filter, options);
    return this.#listFamilies(
      filter.family,
      (family) => this.#listRoutesOf({ ...filter, family }, options),
    );
  }

  /** Lists rules, in the order of their priority within each family. */
  listRules(
    filter: { readonly family?: Family } = {},
    options: ListOptions = {},
  ): Promise<Rule[]> {
    return this.#list("list rules", {
      type: RTM_GETRULE,
      entryType: RTM_NEWRULE,
      parse: parseRule,
      write: (writer) => writeRuleFilter(writer, filter.family),
    }, options);
  }

  /** Lists neighbours: of one link, of one family, or all. */
  listNeighbours(
    filter: { readonly index?: number; readonly family?: Family } = {},
  ): Promise<Neighbour[]> {
    return this.#listFamilies(
      filter.family,
      (family) =>
        this.#list("list neighbours", {
          type: RTM_GETNEIGH,
          entryType: RTM_NEWNEIGH,
          parse: parseNeighbour,
          write: (writer) =>
            writeNeighbourFilter(writer, { ...filter, family }),
        }),
    );
  }

  /** Closes the socket, after what is running. Harmless when done twice. */
  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  async #listRoutesOf(
    filter: RouteFilter,
    options: ListOptions,
  ): Promise<Route[]> {
    const { table, protocol, index, keep = () => true } = filter;
    const isRead = filter.outward === true ? leadsOut : () => true;
    // Kernels before 4.20 know no filters; IPv6 takes a table for a hint.
    const isMeant = (route: Route) =>
      (table === undefined || route.table === table) &&
      (protocol === undefined || route.protocol === protocol) &&
      (index === undefined || route.index === index) && keep(route);
    try {
      return await this.#list("list routes", {
        type: RTM_GETROUTE,
        entryType: RTM_NEWROUTE,
        parse: (message) => {
          if (!isRead(message)) return undefined;
          const route = parseRoute(message);
          return route !== undefined && isMeant(route) ? route : undefined;
        },
        write: (writer) => writeRouteFilter(writer, filter),
      }, options);
    } catch (error) {
      // A table that was never written to does not exist.
      const noTable = error instanceof NetlinkError &&
        error.errno === ERRNO.ENOENT;
      if (noTable && table !== undefined) return [];
      throw error;
    }
  }

  async #listFamilies<T>(
    family: Family | undefined,
    list: (family: Family) => Promise<T[]>,
  ): Promise<T[]> {
    const lists: T[][] = [];
    for (const one of family === undefined ? FAMILIES : [family]) {
      lists.push(await list(one));
    }
    return lists.flat();
  }

  #list<T>(
    description: string,
    list: List<T>,
    { isShort = false, atMost }: ListOptions = {},
  ): Promise<T[]> {
    const { type, entryType, write, parse } = list;
    return this.#connection.dump(
      { type, flags: 0, describe: () => description, write },
      (message) => message.type === entryType ? parse(message) : undefined,
      { onThread: isShort && listsWithoutLock, atMost },
    );
  }
}

/** How a list is asked for. */
export interface ListOptions {
  /**
   * Asks on the calling thread, where the kernel needs no lock for the list:
   * other threads would cost several times what a list of a pod does.
   */
  readonly isShort?: boolean;
  /** The rest is left out: a pod may have any number, and could exhaust this process. */
  readonly atMost?: number;
}

/**
 * Linux 6.9 and 6.10 took RTNL off the lists of addresses, rules and routes, not
 * off that of links (RTNL_FLAG_DUMP_UNLOCKED of
 * include/net/rtnetlink.h); 6.12 is the first with long support after them.
 */
const listsWithoutLock: boolean = isFrom(Deno.osRelease(), [6, 12]);

/** Whether a release such as `6.18.44-fc` is that version or a later one. */
export function isFrom(
  release: string,
  [major, minor]: readonly [number, number],
): boolean {
  const [ours = 0, oursMinor = 0] = release.split(/[.-]/).map(Number);
  return ours > major || ours === major && oursMinor >= minor;
}

interface List<T> {
  readonly type: number;
  readonly entryType: number;
  write(writer: MessageWriter): void;
  parse(message: Message): T | undefined;
}
