import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { Watcher } from "./watcher.ts";

const SOON_MS = 100;
const CALM_MS = 600_000;

/** A watcher whose looks are counted. */
class Site implements AsyncDisposable {
  looks = 0;
  isAwaited = false;
  failure: Error | undefined;
  readonly watcher: Watcher;
  readonly #clock = new FakeClock();
  readonly #tasks = new TaskGroup();

  constructor() {
    this.watcher = new Watcher({
      what: "it",
      look: (signal) => this.#look(signal),
      isAwaited: () => this.isAwaited,
      soon: { initialMs: SOON_MS, maxMs: 100 * SOON_MS },
      calmMs: CALM_MS,
      clock: this.#clock,
    });
    this.#tasks.run("watcher", (signal) => this.watcher.run(signal));
  }

  #look(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.looks++;
    return this.failure ? Promise.reject(this.failure) : Promise.resolve();
  }

  /** Lets time pass; how often it has looked since the last time. */
  async looksIn(ms: number): Promise<number> {
    await this.#clock.advance(ms);
    const { looks } = this;
    this.looks = 0;
    return looks;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("Watcher looks once, when it is asked, and now and then", async () => {
  await using site = new Site();
  assert.equal(await site.looksIn(0), 1);
  site.watcher.ask();
  assert.equal(await site.looksIn(0), 1);
  assert.equal(await site.looksIn(CALM_MS / 2 - 1), 0);
  // Half to one and a half times as long.
  assert.match(`${await site.looksIn(CALM_MS + 1)}`, /^[12]$/);
});

Deno.test("Watcher looks soon while something is awaited, and then less and less often, until it is asked", async () => {
  await using site = new Site();
  site.isAwaited = true;
  assert.equal(await site.looksIn(0), 1);
  assert.equal(await site.looksIn(SOON_MS / 2 - 1), 0);
  assert.ok(await site.looksIn(SOON_MS) > 0);
  assert.ok(await site.looksIn(200 * SOON_MS) > 5);
  assert.ok(await site.looksIn(10 * SOON_MS) <= 1);
  site.watcher.ask();
  assert.equal(await site.looksIn(0), 1);
  assert.equal(await site.looksIn(SOON_MS), 1);
  site.isAwaited = false;
  site.watcher.ask();
  assert.equal(await site.looksIn(200 * SOON_MS), 1);
});

Deno.test("Watcher looks again after a failure, later after the next, and soon again after a look that succeeds", async () => {
  const lines = loggedLines();
  await using site = new Site();
  site.failure = new Error("no answer");
  assert.equal(await site.looksIn(0), 1);
  site.watcher.ask();
  assert.equal(await site.looksIn(249), 0, "also when it is asked");
  assert.ok(await site.looksIn(251) > 0);
  assert.ok(await site.looksIn(60_000) > 5);
  assert.ok(await site.looksIn(14_000) <= 1);
  assert.equal(lines.length, 1, "the same failure is reported once");
  site.failure = undefined;
  assert.equal(await site.looksIn(30_000), 1);
  site.failure = new Error("no answer");
  site.watcher.ask();
  assert.equal(await site.looksIn(0), 1);
  assert.ok(await site.looksIn(500) > 0);
});
