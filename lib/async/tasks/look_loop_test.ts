import assert from "node:assert/strict";
import { LookLoop } from "./look_loop.ts";
import { sleep } from "../time/sleep.ts";
import { TaskGroup } from "./task_group.ts";

function setUp(
  look: () => boolean | Promise<boolean>,
  everyMs: number = 60_000,
) {
  const looks: string[] = [];
  const failures: unknown[] = [];
  const tasks = new TaskGroup();
  const loop = new LookLoop({
    all: ["a", "b"],
    everyMs,
    look: async (parts) => {
      looks.push([...parts].sort().join());
      return await look();
    },
    onFailure: (error) => failures.push(error),
  });
  tasks.run("loop", (signal) => loop.run(signal));
  return { failures, loop, looks, tasks };
}

async function until(
  holds: () => boolean,
  { withinMs = 60_000 }: { readonly withinMs?: number } = {},
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!holds()) {
    assert.ok(performance.now() < end, `not so: ${holds}`);
    await sleep(2);
  }
}

Deno.test("LookLoop joins what is asked for at once", async () => {
  const { loop, looks, tasks } = setUp(() => false);
  await using _tasks = tasks;
  loop.want(["a"]);
  loop.want(["b"]);
  await until(() => looks.length > 0);
  assert.deepEqual(looks, ["a,b"]);
  loop.want(["b"]);
  await until(() => looks.length > 1);
  assert.deepEqual(looks, ["a,b", "b"]);
});

Deno.test("LookLoop looks at what was asked for during a look", async () => {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const { loop, looks, tasks } = setUp(() => promise);
  await using _tasks = tasks;
  loop.want(["a"]);
  await until(() => looks.length === 1);
  loop.want(["a"]);
  resolve(false);
  await until(() => looks.length === 2);
});

Deno.test("LookLoop looks at everything from time to time", async () => {
  const { looks, tasks } = setUp(() => false, 30);
  await using _tasks = tasks;
  await until(() => looks.length === 3);
  assert.deepEqual(looks, ["a,b", "a,b", "a,b"]);
});

Deno.test("LookLoop looks again after a failure", async () => {
  let count = 0;
  const { failures, loop, looks, tasks } = setUp(() => {
    if (count++ === 0) throw new Error("boom");
    return false;
  });
  await using _tasks = tasks;
  loop.want(["b"]);
  await until(() => looks.length === 2);
  assert.deepEqual(looks, ["b", "b"]);
  assert.equal(failures.length, 1);
});

Deno.test("LookLoop slows down while there is always something to repair", async () => {
  const { loop, looks, tasks } = setUp(() => {
    loop.want(["a"]);
    return true;
  });
  await using _tasks = tasks;
  loop.want(["a"]);
  await sleep(2_000);
  assert.ok(looks.length <= 20, `${looks.length} looks`);
  // It goes on: the longest pause is half a second.
  await until(() => looks.length >= 2, { withinMs: 10_000 });
});
