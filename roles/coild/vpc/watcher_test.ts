import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { settle, untilPasses } from "../../../lib/async/testing.ts";
import { Watcher } from "./watcher.ts";

const NEVER_MS = 3_600_000;

/** A watcher whose looks are counted. */
class Site implements AsyncDisposable {
  looks = 0;
  isAwaited = false;
  failure: Error | undefined;
  readonly watcher: Watcher;
  readonly #tasks = new TaskGroup();

  constructor() {
    this.watcher = new Watcher({
      what: "it",
      look: (signal) => this.#look(signal),
      isAwaited: () => this.isAwaited,
      soon: { initialMs: 1, maxMs: 2 },
      calmMs: NEVER_MS,
    });
    this.#tasks.run("watcher", (signal) => this.watcher.run(signal));
  }

  #look(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.looks++;
    return this.failure ? Promise.reject(this.failure) : Promise.resolve();
  }

  /** Waits for so many looks in all; more do not come by themselves. */
  async expect(looks: number): Promise<void> {
    await untilPasses(() => assert.equal(this.looks, looks));
    await settle();
    assert.equal(this.looks, looks);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("Watcher looks once, and again when it is asked", async () => {
  await using site = new Site();
  await site.expect(1);
  site.watcher.ask();
  await site.expect(2);
});

Deno.test("Watcher looks again and again while something is awaited", async () => {
  await using site = new Site();
  site.isAwaited = true;
  await untilPasses(() => assert.ok(site.looks > 3));
  site.isAwaited = false;
  const { looks } = site;
  await untilPasses(() => assert.ok(site.looks > looks));
  await site.expect(site.looks);
});

Deno.test("Watcher looks again after a failure, in a while", async () => {
  await using site = new Site();
  site.failure = new Error("no answer");
  await site.expect(1);
  site.failure = undefined;
  await site.expect(2);
});
