import assert from "node:assert/strict";
import { endChildren, Restarts } from "./cluster/restarts.ts";
import { assertSoon } from "./lag.ts";
import { type LabProcess, spawnProcess } from "./process.ts";
import { eventually, sleep } from "./wait.ts";

/** Starts shell scripts in a directory of their own; what it started is ended with it. */
class Scripts implements AsyncDisposable {
  readonly #runDir = Deno.makeTempDirSync({ prefix: "coil-test-" });
  readonly started: LabProcess[] = [];

  async start(script: string): Promise<LabProcess> {
    const process = await spawnProcess({
      id: `script-${this.started.length}`,
      runDir: this.#runDir,
      command: "sh",
      args: ["-c", script],
    });
    this.started.push(process);
    return process;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.started) await process.kill9();
    await Deno.remove(this.#runDir, { recursive: true });
  }
}

Deno.test("Restarts starts a program again each time it ends by itself, and not after end()", async () => {
  await using scripts = new Scripts();
  const first = await scripts.start("exit 1");
  const restarts = new Restarts(
    first,
    () =>
      scripts.start(scripts.started.length < 3 ? "exit 1" : "exec sleep 60"),
  );
  await eventually("the third start again", () => scripts.started[3]);
  await restarts.end();
  await scripts.started[3]?.kill9();
  await sleep(700);
  assert.equal(scripts.started.length, 4);
});

Deno.test("Restarts.end() waits for a start that is under way", async () => {
  await using scripts = new Scripts();
  const first = await scripts.start("exit 1");
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: go, resolve: goOn } = Promise.withResolvers<void>();
  const restarts = new Restarts(first, async () => {
    begin();
    await go;
    return await scripts.start("exec sleep 60");
  });
  await begun;
  const end = restarts.end();
  goOn();
  await end;
  assert.equal(scripts.started.length, 2);
});

Deno.test("endChildren() ends a program that is started only after the signal was asked for", async () => {
  await using scripts = new Scripts();
  // The first child needs no signal to end; the second comes later.
  const parent = await scripts.start("sleep 0.3; sleep 600; exit 0");
  await assertSoon(() => endChildren(parent, "SIGTERM"), {
    what: "the end of the second child",
    limitMs: 5_000,
  });
  assert.equal(parent.isRunning, false);
});
