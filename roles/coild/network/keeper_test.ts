import assert from "node:assert/strict";
import {
  Gate,
  sleep,
  TaskGroup,
  untilAborted,
} from "../../../lib/async/mod.ts";
import { untilQuiet } from "../../../lib/async/testing.ts";
import { Prefix } from "../../../lib/inet/mod.ts";
import type { Notification } from "../../../lib/netlink/mod.ts";
import {
  type HostLack,
  HostProblem,
  type UpkeepPart,
} from "../../../lib/podnet/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { NetworkKeeper } from "./keeper.ts";
import { Readiness } from "../observe/readiness.ts";

const RULE: HostLack = {
  what: "rule",
  family: "ipv4",
  rule: { family: "ipv4", priority: 2000, table: 116 },
};

/** A node whose network is a few variables, and a kernel that tells what it is told to. */
class World implements AsyncDisposable {
  readonly readiness = new Readiness({});
  readonly looks: UpkeepPart[] = [];
  readonly repaired: string[] = [];
  problems: HostProblem[] = [];
  podProblems: string[] = [];
  hasRule = true;
  busy = 0;
  removesAgain = false;
  isBroken = false;
  /** Whether the export table can be written. */
  exports = true;
  readonly #tasks = new TaskGroup();
  #told = Promise.withResolvers<Notification[]>();
  readonly keeper: NetworkKeeper;
  readonly prepared = new Gate();

  constructor({ lookMs, isReady = true, isPrepared = true }: {
    readonly lookMs?: number;
    readonly isReady?: boolean;
    readonly isPrepared?: boolean;
  } = {}) {
    const { prepared } = this;
    if (isPrepared) prepared.open();
    const blocks = [{ prefixes: { ipv4: Prefix.parse("10.0.0.0/27") } }];
    this.keeper = new NetworkKeeper({
      network: {
        upkeep: {
          ensureHost: () => Promise.try(() => this.#ensureHost()),
          partsOf: ({ kind }) =>
            kind === "overflow"
              ? ["host", "pods", "export"]
              : kind === "rule"
              ? ["host"]
              : kind === "route"
              ? ["pods"]
              : [],
        },
        survey: () =>
          Promise.resolve({
            pods: [],
            husks: [],
            malformed: [],
            misplacedRoutes: [],
          }),
      },
      ipam: {
        isReady,
        blocks: () => blocks as never,
        restoreExport: () => {
          this.looks.push("export");
          return Promise.resolve(this.exports);
        },
      },
      repair: {
        repair: () => {
          this.looks.push("pods");
          const busy = this.busy;
          this.busy = 0;
          const problems = this.podProblems;
          return Promise.resolve({ repaired: 0, busy, problems });
        },
      },
      routes: { restored: 0 },
      reports: { repaired: (what) => void this.repaired.push(...what) },
      readiness: this.readiness,
      prepared,
      watch: () => ({
        next: async ({ signal }) => {
          const stopped = untilAborted(signal).then(() => []);
          const found = await Promise.race([this.#told.promise, stopped]);
          signal.throwIfAborted();
          this.#told = Promise.withResolvers();
          return found;
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
      lookMs,
    });
    this.#tasks.run("keeper", (signal) => this.keeper.run(signal));
  }

  tell(...notifications: Notification[]): void {
    this.#told.resolve(notifications);
  }

  /** Waits until it holds. */
  async until(
    holds: () => boolean,
    { withinMs = 60_000 }: { readonly withinMs?: number } = {},
  ): Promise<void> {
    const end = performance.now() + withinMs;
    while (!holds()) {
      assert.ok(performance.now() < end, `not so: ${holds}`);
      await sleep(2);
    }
  }

  /** Waits for the first look, at everything, and forgets it. */
  async begun(): Promise<void> {
    await this.until(() => this.looks.length === 3);
    assert.deepEqual(this.looks, ["host", "pods", "export"]);
    this.looks.length = 0;
  }

  #ensureHost() {
    this.looks.push("host");
    if (this.isBroken) throw new Error("refused");
    const repaired = this.hasRule ? [] : [RULE];
    this.hasRule = !this.removesAgain;
    if (this.removesAgain) this.tell({ kind: "rule", family: "ipv4" });
    return { repaired, problems: this.problems };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("NetworkKeeper looks at what a notification is about, and at nothing else", async () => {
  await using world = new World();
  await world.begun();
  world.hasRule = false;
  world.tell({ kind: "rule", family: "ipv4" });
  await world.until(() => world.repaired.length > 0);
  assert.deepEqual(world.looks, ["host"]);
  assert.deepEqual(world.repaired, ["rule"]);
  world.tell({ kind: "link", index: 7 }, { kind: "route", table: 116 });
  await world.until(() => world.looks.includes("pods"));
  assert.deepEqual(world.looks, ["host", "pods"]);
});

Deno.test("NetworkKeeper looks at nothing before the node is prepared, and misses nothing of it", async () => {
  await using world = new World({ isPrepared: false });
  await untilQuiet(() => world.looks.length, 30);
  assert.equal(world.looks.length, 0);
  assert.equal(world.keeper.check(), true);
  world.prepared.open();
  await world.begun();
});

Deno.test("NetworkKeeper looks at everything when it missed something", async () => {
  await using world = new World();
  await world.begun();
  world.tell({ kind: "overflow" });
  await world.begun();
});

Deno.test("NetworkKeeper leaves pods alone until it is known what they have", async () => {
  await using world = new World({ isReady: false });
  await world.until(() => world.looks.includes("export"));
  assert.deepEqual(world.looks, ["host", "export"]);
});

Deno.test("NetworkKeeper looks at everything from time to time", async () => {
  await using world = new World({ lookMs: 50 });
  await world.begun();
  world.hasRule = false;
  await world.until(() => world.hasRule);
  assert.deepEqual(world.repaired, ["rule"]);
});

Deno.test("NetworkKeeper looks again at pods that were being worked on", async () => {
  await using world = new World();
  world.busy = 1;
  await world.begun();
  await world.until(() => world.looks.length > 0);
  assert.deepEqual(world.looks, ["pods"]);
});

Deno.test("NetworkKeeper looks again once, however many looks found pods being worked on", async () => {
  await using world = new World();
  await world.begun();
  const startMs = performance.now();
  for (let i = 1; i <= 5; i++) {
    world.busy = 1;
    world.tell({ kind: "route", table: 116 });
    await world.until(() => world.looks.length >= i);
  }
  await world.until(() => world.looks.length > 5);
  const tookMs = performance.now() - startMs;
  await sleep(1_500);
  const { length } = world.looks; // one more, and another for each second
  const most = 6 + Math.ceil(tookMs / 1_000);
  assert.ok(length <= most, `${length} looks in ${tookMs} ms`);
});

Deno.test("NetworkKeeper says once what fails again and again", async () => {
  await using world = new World();
  await world.begun();
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  world.isBroken = true;
  world.tell({ kind: "rule", family: "ipv4" });
  await world.until(() => world.looks.length >= 4);
  assert.equal(lines.filter((line) => line.includes("refused")).length, 1);
});

Deno.test("NetworkKeeper slows down when somebody removes things again and again", async () => {
  await using world = new World();
  await world.begun();
  world.removesAgain = true;
  world.hasRule = false;
  world.tell({ kind: "rule", family: "ipv4" });
  await sleep(2_000);
  const count = world.repaired.length;
  assert.ok(count <= 20, `${count} repairs in 2 s`);
  // It goes on: the longest pause is half a second.
  await world.until(() => world.repaired.length >= 2, { withinMs: 10_000 });
});

Deno.test("NetworkKeeper is not ready while something of a family in use cannot be put back", async () => {
  await using world = new World();
  await world.begun();
  world.problems = [new HostProblem("ipv6", "six")];
  world.tell({ kind: "rule", family: "ipv6" });
  await world.until(() => world.looks.length === 1);
  assert.equal(world.readiness.reason, undefined);
  world.problems = [new HostProblem("ipv4", "four")];
  world.tell({ kind: "rule", family: "ipv4" });
  await world.until(() => world.readiness.reason === "four");
  world.problems = [];
  world.tell({ kind: "rule", family: "ipv4" });
  await world.until(() => world.readiness.isReady);
});

Deno.test("NetworkKeeper names pods that lack something for good", async () => {
  await using world = new World();
  await world.begun();
  assert.equal(world.keeper.check(), true);
  world.podProblems = ["a", "b", "c"];
  world.tell({ kind: "route", table: 116 });
  await world.until(() => world.keeper.check() !== true);
  assert.equal(world.keeper.check(), "a; and 2 more pods");
  world.podProblems = ["a"];
  world.tell({ kind: "route", table: 116 });
  await world.until(() => world.keeper.check() === "a");
  world.exports = false;
  world.tell({ kind: "overflow" });
  await world.until(() =>
    world.keeper.check() === "a; the export table cannot be written"
  );
});
