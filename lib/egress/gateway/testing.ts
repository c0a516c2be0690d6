/**
 * A kernel for tests of a gateway that need no real one: tests set what it has, and read what it was asked to change.
 *
 * @module
 */
import { ERRNO } from "../../linux/mod.ts";
import type { Address, Family } from "../../inet/mod.ts";
import {
  type ConntrackFlow,
  type FouPort,
  type Link,
  NetlinkError,
  type NftCounter,
  type NftTable,
  type Request,
  type Route,
  type Rule,
} from "../../netlink/mod.ts";
import { formatTable } from "../../../tests/lab/plan_text/nft_table.ts";
import type { ServerKernel } from "./kernel.ts";

interface SetChange {
  readonly set: string;
  readonly add?: readonly (readonly Address[])[];
  readonly remove?: readonly (readonly Address[])[];
}

/** The kernel, and what was done to it. */
export class FakeServerKernel {
  links: Link[] = [];
  routes: Route[] = [];
  rules: Rule[] = [];
  ports: FouPort[] = [];
  /** The elements of the sets of clients, by name; undefined: there is no table. */
  sets: Record<string, readonly Address[]> | undefined;
  /** The table as text. */
  table: string | undefined;
  /** Its connections. */
  flows: ConntrackFlow[] = [];
  /** Counters of the table, by name. */
  counters: ReadonlyMap<string, NftCounter> = new Map();
  /** How many connections the kernel has room for. */
  maxFlows = 262_144;
  /** Whether it can count connections. */
  canLimit = true;
  /** What it was asked to change, in order. */
  readonly done: string[] = [];
  /** The requests among that. */
  readonly sent: Request[] = [];
  /** What it says of IPv6 where it has none. */
  ipv6Errno: number | undefined;
  /** What it says of sets that are not there. */
  setErrno: number = ERRNO.ENOENT;
  /** What it says of a table with limits where it cannot count. */
  limitErrno: number = ERRNO.ENOENT;
  /** Called after each change. */
  after: (done: string) => void = () => {};
  /** Error numbers for changes, by what {@linkcode FakeServerKernel.done} says of them. */
  readonly refusals: Record<string, number> = {};

  /** As what is tested takes it. */
  get kernel(): ServerKernel {
    return {
      routes: this.#routes,
      netfilter: this.#netfilter,
      conntrack: this.#conntrack,
      fou: this.#fou,
      [Symbol.dispose]: () => void this.done.push("close"),
    } as unknown as ServerKernel;
  }

  readonly #routes = {
    listLinks: () => Promise.resolve(this.links),
    getLink: ({ name }: { readonly name: string }) =>
      Promise.resolve(this.links.find((link) => link.name === name)),
    listRules: () => Promise.resolve(this.rules),
    listRoutes: (
      { family, table }: { readonly family: Family; readonly table: number },
    ) =>
      family === "ipv6" && this.ipv6Errno !== undefined
        ? Promise.reject(errorOf(this.ipv6Errno))
        : Promise.resolve(
          this.routes.filter((r) => r.family === family && r.table === table),
        ),
    execute: async (requests: readonly Request[]) => {
      for (const error of await this.#routes.tryExecute(requests)) {
        if (error !== undefined) throw error;
      }
    },
    tryExecute: (requests: readonly Request[]) => {
      this.sent.push(...requests);
      return Promise.resolve(
        requests.map((request) => this.#do(request.describe())),
      );
    },
  };

  readonly #netfilter = {
    tableExists: () => Promise.resolve(this.table !== undefined),
    replaceTable: (table: NftTable) => {
      const isLimited = table.sets.some(({ dynamic }) => dynamic !== undefined);
      if (isLimited && !this.canLimit) {
        return Promise.reject(errorOf(this.limitErrno));
      }
      this.#do(isLimited ? "replace table with limits" : "replace table");
      this.table = formatTable(table);
      return Promise.resolve();
    },
    compareTable: (table: NftTable) =>
      Promise.resolve(formatTable(table) === this.table ? [] : ["something"]),
    deleteTable: () => {
      this.#do("delete table");
      return Promise.resolve();
    },
    changeSet: ({ set, add = [], remove = [] }: SetChange) => {
      const [added, removed] = [add, remove].map((each) => each.map(String));
      this.#do(`set ${set} +${added?.length} -${removed?.length}`);
      const present = this.sets?.[set] ?? [];
      const left = present.filter((one) => !removed?.includes(`${[one, one]}`));
      const more = add.flatMap(([outer]) => outer ?? []);
      this.sets = { ...this.sets, [set]: [...left, ...more] };
      return Promise.resolve();
    },
    readCounters: () => Promise.resolve(this.counters),
    listSet: (_: string, set: string) => {
      const elements = this.sets?.[set];
      return elements === undefined
        ? Promise.reject(errorOf(this.setErrno))
        : Promise.resolve(elements.map((address) => [address, address]));
    },
  };

  readonly #conntrack = {
    count: () => Promise.resolve({ entries: 7, max: this.maxFlows }),
    deleteWhere: (_: unknown, { family }: { readonly family: Family }) => {
      const error = this.#do(`forget ${family}`);
      return error === undefined ? Promise.resolve(1) : Promise.reject(error);
    },
    visit: (
      visitor: (flow: ConntrackFlow) => void,
      { family }: { readonly family: Family },
    ) => {
      this.flows.filter((flow) => flow.family === family).forEach(visitor);
      return Promise.resolve();
    },
  };

  readonly #fou = {
    list: () => Promise.resolve(this.ports),
    add: ({ family, port }: FouPort) => {
      this.#do(`add ${family} port ${port}`);
      return Promise.resolve();
    },
    delete: ({ family, port }: FouPort) => {
      this.#do(`delete ${family} port ${port}`);
      return Promise.resolve();
    },
  };

  #do(what: string): NetlinkError | undefined {
    this.done.push(what);
    this.after(what);
    const errno = this.refusals[what];
    return errno === undefined ? undefined : errorOf(errno);
  }
}

function errorOf(errno: number): NetlinkError {
  return new NetlinkError("Cannot do it", { errno });
}
