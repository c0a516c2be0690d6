import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { NetlinkError, type Route } from "../../netlink/mod.ts";
import type { State } from "../state/state.ts";
import type { DeviceRoute, Step } from "../state/steps.ts";
import { FakeNetwork, linkOf } from "../testing.ts";
import { applySteps } from "./apply.ts";
import type { EndLink } from "./ends.ts";
import type { Filters, Kernel } from "./ports.ts";

function refusal(errno: number): NetlinkError {
  return new NetlinkError("do it", { errno });
}

const EPERM = refusal(1);
const ESRCH = refusal(3);
const EEXIST = refusal(17);
const LOST = new NetlinkError("do it", { errno: 105, lost: "answer" });

const INNER = linkOf(3, { name: "veth0" }) as EndLink; // it has a MAC address
const OUTER = linkOf(7, { name: "vethx" }) as EndLink; // likewise

function route(device: string, table: number): DeviceRoute {
  return {
    family: "ipv4",
    destination: Prefix.parse("10.6.0.10/32"),
    device,
    table,
    protocol: 32,
    scope: "link",
    type: "unicast",
  };
}

const IN_POD: Step = {
  kind: "route",
  place: "pod",
  route: route("veth0", 100),
};
const ON_HOST: Step = {
  kind: "route",
  place: "host",
  route: route("vethx", 500),
};
const NEIGHBOUR: Step = {
  kind: "neighbour",
  place: "pod",
  neighbour: {
    device: "veth0",
    address: Address.parse("10.6.0.10"),
    mac: OUTER.mac,
  },
};
const SYSCTL: Step = {
  kind: "sysctl",
  place: "pod",
  name: "net/a",
  value: "1",
};

type Answers = Readonly<Record<string, NetlinkError>>;

/** Both sides, of which all that is done is noted in one list. */
class Site {
  readonly done: string[] = [];
  readonly state: State;
  /** By a part of the request's words. */
  answers: Answers = {};
  hasTable = false;
  tableError: Error | undefined;
  readonly #undo: (() => Promise<void>)[] = [];
  readonly #routes: Route[];

  constructor({ hostRoutes = [], sysctl }: {
    readonly hostRoutes?: Route[];
    readonly sysctl?: string;
  } = {}) {
    const none = { addresses: [], rules: [], routes: [], neighbours: [] };
    this.#routes = hostRoutes;
    this.state = {
      pod: { ...none, links: [INNER] },
      host: { ...none, links: [OUTER, linkOf(8, { name: "vethy" })] },
      sysctls: new Map(sysctl === undefined ? [] : [["pod net/a", sysctl]]),
      repliesMarked: false,
    };
  }

  #network(side: string, routes: Route[]): FakeNetwork {
    const network = new FakeNetwork({ routes });
    network.answer = (request) => {
      this.done.push(`${side}: ${request}`);
      const found = Object.entries(this.answers)
        .find(([part]) => `${side}: ${request}`.includes(part));
      return found?.[1];
    };
    return network;
  }

  #filters(): Filters {
    const note = (what: string) => {
      this.done.push(what);
      return this.tableError
        ? Promise.reject(this.tableError)
        : Promise.resolve(!this.hasTable);
    };
    return {
      createTable: () => note("create table"),
      replaceTable: () => note("replace table").then(() => {}),
      deleteTable: () => note("delete table"),
    } as Partial<Filters> as Filters; // all that is used
  }

  async apply(steps: readonly Step[], isNew = false): Promise<void> {
    const kernel: Kernel = {
      netns: "pod" as unknown as Netns, // handed on
      pod: this.#network("pod", []),
      host: this.#network("host", this.#routes),
      filters: this.#filters(),
      writeSysctl: (name, value, { netns } = {}) =>
        void this.done.push(`${netns ?? "host"}: ${name}=${value}`),
    };
    await applySteps(kernel, steps, {
      state: this.state,
      undo: { defer: (undo) => void this.#undo.push(undo) },
      ends: { inner: INNER, outer: OUTER, isNew },
    });
  }

  /** What is done to put things back, the last change first. */
  async undone(): Promise<string[]> {
    this.done.length = 0;
    for (const undo of this.#undo.toReversed()) await undo();
    return this.done;
  }
}

const ADD_IN_POD = 'pod: add route "10.6.0.10/32" to table 100';
const DELETE_IN_POD = 'pod: delete route "10.6.0.10/32" from table 100';
const ADD_ON_HOST = 'host: add route "10.6.0.10/32" to table 500';

Deno.test("applySteps() sets sysctls, then the pod's side, then the host's, and undoes them the other way round", async () => {
  const site = new Site({ sysctl: "0" });
  await site.apply([ON_HOST, IN_POD, SYSCTL]);
  assert.deepEqual(site.done, ["pod: net/a=1", ADD_IN_POD, ADD_ON_HOST]);
  assert.deepEqual(await site.undone(), [
    'host: delete route "10.6.0.10/32" from table 500',
    DELETE_IN_POD,
    "pod: net/a=0",
  ]);
});

Deno.test("applySteps() leaves out what is done, and sets up the ends of a new pair", async () => {
  const done = new Site({ sysctl: "1" });
  await done.apply([SYSCTL]);
  assert.deepEqual(done.done, []);
  const site = new Site();
  await site.apply([IN_POD, ON_HOST], true);
  assert.deepEqual(site.done, [
    "pod: set link 3",
    "pod: set link 3",
    ADD_IN_POD,
    ADD_ON_HOST,
    "host: get link 7",
  ]);
});

Deno.test("applySteps() ends with the first step that is refused, and undoes those that were taken, or may have been", async () => {
  for (const [error, isUndone] of [[EPERM, false], [LOST, true]] as const) {
    const site = new Site();
    site.answers = { "route": error };
    await assert.rejects(site.apply([IN_POD, NEIGHBOUR, ON_HOST]), error);
    assert.ok(!site.done.includes(ADD_ON_HOST), "the host leads to the pod");
    site.answers = {};
    const undone = await site.undone();
    assert.match(undone[0] ?? "", /neighbour/);
    assert.equal(undone.includes(DELETE_IN_POD), isUndone);
  }
});

Deno.test("applySteps() refuses an end that cannot be set up", async () => {
  const site = new Site();
  site.answers = { "set link": EPERM };
  await assert.rejects(site.apply([IN_POD], true), EPERM);
  assert.deepEqual(await site.undone(), [DELETE_IN_POD]);
});

Deno.test("applySteps() puts a route in place of one that it has not read, and that one back", async () => {
  const { device: _device, ...rest } = route("vethy", 500);
  const site = new Site({ hostRoutes: [{ ...rest, index: 8 }] });
  site.answers = { "add route": EEXIST };
  await site.apply([ON_HOST]);
  const replace = 'host: replace route "10.6.0.10/32" to table 500';
  assert.deepEqual(site.done, [ADD_ON_HOST, replace]);
  assert.deepEqual(await site.undone(), [replace]);
});

Deno.test("applySteps() does not mind that what is to go is gone, nor that undoing finds all as it was", async () => {
  const site = new Site();
  const { device: _device, ...rest } = route("veth0", 100);
  const present = { ...rest, index: 3 };
  Object.assign(site.state.pod, { routes: [present] });
  const gone: Step = { ...IN_POD, kind: "noRoute" };
  site.answers = { "delete route": ESRCH };
  await site.apply([gone]);
  site.answers = { "delete route": EPERM };
  await assert.rejects(site.apply([gone]), EPERM);
  site.answers = {};
  await site.apply([gone]);
  site.answers = { "add route": EEXIST };
  assert.equal((await site.undone()).length, 1);
  site.answers = { "add route": EPERM };
  await assert.rejects(site.undone(), EPERM);
});

Deno.test("applySteps() marks answers by a table of its own, and takes just that one back", async () => {
  const marks: Step = { kind: "replies" };
  const site = new Site();
  await site.apply([marks]);
  assert.deepEqual(site.done, ["create table"]);
  assert.deepEqual(await site.undone(), ["delete table"]);
  const other = new Site();
  other.hasTable = true;
  await other.apply([marks]);
  assert.deepEqual(other.done, ["create table", "replace table"]);
  assert.deepEqual(await other.undone(), []);
});

Deno.test("applySteps() says what the kernel lacks for marks, and takes back what may have been made", async () => {
  const marks: Step = { kind: "replies" };
  const failed = async (error: Error) => {
    const site = new Site();
    site.tableError = error;
    await assert.rejects(site.apply([marks]), (found) => {
      const isExplained = found instanceof CniError;
      assert.ok(isExplained || found === error);
      site.done.push(isExplained ? "explained" : "as it is");
      return true;
    });
    const how = site.done.at(-1);
    site.tableError = undefined;
    return [how, ...await site.undone()];
  };
  assert.deepEqual(await failed(EPERM), ["as it is"]);
  assert.deepEqual(await failed(LOST), ["as it is", "delete table"]);
  for (const errno of [2, 95, 93]) {
    const error = new NetlinkError("create it", { errno });
    assert.deepEqual(await failed(error), ["explained"], error.code);
  }
});
