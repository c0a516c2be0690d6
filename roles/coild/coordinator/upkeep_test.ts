import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../../lib/async/testing.ts";
import { FakeNetwork, linkOf } from "../../../lib/coordinator/testing.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { Listener, Neighbour, Route } from "../../../lib/netlink/mod.ts";
import { addressEntry } from "../../../lib/netlink/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { CoordinatorUpkeep } from "./upkeep.ts";

const ENDS = [7, 8] as const;

/** The host's routes to two joined pods. */
const ROUTES = ENDS.map((index): Route => ({
  family: "ipv4",
  destination: Prefix.parse(`10.6.0.10${index}/32`),
  index,
  table: 500,
  protocol: 32,
  scope: "link",
  type: "unicast",
}));

/** A host with two joined pods, and coild's upkeep of it. */
class Site implements AsyncDisposable {
  readonly host = {
    links: [
      linkOf(2),
      ...ENDS.map((index) =>
        linkOf(index, { alias: `COIL-COORD:c${index}:e` })
      ),
    ],
    addresses: [addressEntry(2, "10.6.0.10/24")],
    rules: [],
    routes: ROUTES,
    neighbours: [] as Neighbour[],
  };
  looks = 0;
  /** The host's ends of the pods that were looked at. */
  readonly pods: number[] = [];
  /** Called at each look, and at each pod. */
  onLook: () => void = () => {};
  onPod: (end: number) => void = () => {};
  isQuiet = true;
  readonly #tasks = new TaskGroup();
  #hear: () => void = () => {};

  constructor({ lookMs = 3_600_000 } = {}) {
    const upkeep = new CoordinatorUpkeep({
      open: () => {
        this.looks++;
        this.onLook();
        return {
          openRoutes: () => new FakeNetwork(this.host),
          discard: () => Promise.reject(new Error("no husk")),
          openNamespaces: () => ({
            ofPeer: ({ index }) => {
              this.pods.push(index);
              this.onPod(index);
              return Promise.resolve(undefined);
            },
            [Symbol.dispose]() {},
          }),
        };
      },
      watch: () => this.#listener(),
      calls: { watch: () => () => this.isQuiet },
      leastMs: 1,
      lookMs,
    });
    this.#tasks.run("upkeep", (signal) => upkeep.run(signal));
  }

  #listener(): Listener {
    return {
      next: ({ signal }) =>
        new Promise((resolve, reject) => {
          this.#hear = () => resolve([{} as never]); // only counted
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  /** Something has changed in the host's kernel. */
  async hear(): Promise<void> {
    const { looks } = this;
    this.#hear();
    await untilPasses(() => assert.ok(this.looks > looks));
    await this.settle();
  }

  /** Waits until no look goes on. */
  async settle(): Promise<void> {
    await untilPasses(() => assert.ok(this.looks > 0));
    await untilQuiet(() => this.looks + this.pods.length, 50);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("CoordinatorUpkeep looks at the host when it hears of a change, and at pods when it has other addresses", async () => {
  loggedLines();
  await using site = new Site();
  await site.settle();
  assert.deepEqual([site.looks, site.pods], [1, [...ENDS]]);
  await site.hear();
  assert.deepEqual([site.looks, site.pods], [2, [...ENDS]]);
  site.host.addresses.push(addressEntry(2, "10.6.0.11/24"));
  await site.hear();
  assert.deepEqual([site.looks, site.pods], [3, [...ENDS, ...ENDS]]);
});

Deno.test("CoordinatorUpkeep looks at all from time to time", async () => {
  loggedLines();
  await using site = new Site({ lookMs: 5 });
  await untilPasses(() => assert.ok(site.pods.length > 6));
});

Deno.test("CoordinatorUpkeep looks at all again after a look that has failed, and reports each failure once", async () => {
  const lines = loggedLines();
  await using site = new Site();
  await site.settle();
  let left = 2;
  site.onLook = () => {
    if (left-- > 0) throw new Error("no socket");
  };
  await site.hear();
  assert.deepEqual([site.looks, site.pods], [4, [...ENDS, ...ENDS]]);
  const records = lines.map((line) => JSON.parse(line).msg);
  const failed = records.filter((msg) => msg.startsWith("Failed to check"));
  assert.equal(failed.length, 1, records.join());
});

Deno.test("CoordinatorUpkeep looks at the other pods when one cannot be looked at", async () => {
  const lines = loggedLines();
  await using site = new Site();
  site.onPod = (end) => {
    if (end === 7) throw new Error("no permission");
  };
  await site.settle();
  assert.deepEqual([site.looks, site.pods], [1, [...ENDS]]);
  const records = lines.map((line) => JSON.parse(line));
  assert.deepEqual(
    records.filter(({ level }) => level === "warn").map(({ alias }) => alias),
    ["COIL-COORD:c7:e"],
  );
});

Deno.test("CoordinatorUpkeep looks at pods again when a call has run during a look", async () => {
  loggedLines();
  await using site = new Site();
  site.isQuiet = false;
  site.onPod = (end) => {
    if (end === 8) site.isQuiet = site.pods.length > 2;
  };
  await site.settle();
  assert.deepEqual([site.looks, site.pods], [2, [...ENDS, ...ENDS]]);
});

Deno.test("CoordinatorUpkeep looks at the host again when it has left something to a call that has run", async () => {
  loggedLines();
  await using site = new Site();
  await site.settle();
  site.isQuiet = false;
  // The host lacks its route.
  site.host.neighbours.push({
    index: 7,
    address: Address.parse("10.6.0.109"),
    mac: "02:00:00:00:00:01",
    state: "permanent",
    protocol: 32,
  });
  site.onLook = () => site.isQuiet = site.looks > 2;
  await site.hear();
  assert.deepEqual([site.looks, site.pods], [3, [...ENDS]]);
});
