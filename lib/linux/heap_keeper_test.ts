import assert from "node:assert/strict";
import { type HeapKeeperOptions, measureOwn } from "./heap_keeper.ts";
import { HeapKeeper, openLibc } from "./mod.ts";

// Opened once for the process; inside a test it would count as a leak.
openLibc();

const MIB = 2 ** 20;

/** A process whose memory the test decides; a collection takes the garbage. */
function setUp(
  options: Pick<HeapKeeperOptions, "busyBytes" | "busyFileBytes"> = {},
) {
  const state = {
    live: 20 * MIB,
    garbage: 0,
    /** What a collection cannot give back. */
    rest: 40 * MIB,
    /** Pages of the executable; a release leaves some of the libraries'. */
    files: 0,
    isBusy: false,
    collections: [] as number[],
    releases: 0,
  };
  const keeper = new HeapKeeper({
    ...options,
    isBusy: () => state.isBusy,
    measure: () => {
      const heap = state.live + state.garbage;
      return { heap, resident: heap + state.rest, files: state.files };
    },
    collect: (times) => {
      state.garbage = 0;
      state.collections.push(times);
    },
    releaseFile() {
      state.files = 10 * MIB;
      state.releases++;
    },
  });
  // The first look sees all that the start left, the next one that all is at rest.
  keeper.look();
  keeper.look();
  state.collections = [];
  return { state, keeper };
}

Deno.test("HeapKeeper.look() collects little garbage, as soon as all is at rest", () => {
  const { state, keeper } = setUp();
  state.garbage = 4 * MIB;
  keeper.look(); // It has just come.
  assert.deepEqual(state.collections, []);
  keeper.look();
  assert.deepEqual(state.collections, [2]);
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, [2]);
});

Deno.test("HeapKeeper gives pages of the executable back at rest, not during work", () => {
  const { state, keeper } = setUp();
  state.releases = 0;
  state.isBusy = true;
  state.garbage = 20 * MIB;
  keeper.look();
  assert.deepEqual([state.collections, state.releases], [[1], 0]);
  state.isBusy = false;
  keeper.look();
  assert.deepEqual([state.collections, state.releases], [[1, 2], 1]);
});

Deno.test("HeapKeeper gives pages of the executable back during work as well, when many are in memory and it is asked to", () => {
  const { state, keeper } = setUp({ busyFileBytes: 32 * MIB });
  state.releases = 0;
  const work = (files: number) => {
    state.files = files;
    state.garbage = 20 * MIB;
    keeper.note(50);
    return [state.collections.length, state.releases];
  };
  assert.deepEqual(work(32 * MIB), [1, 0]);
  assert.deepEqual(work(33 * MIB), [2, 1]);
  assert.deepEqual(work(20 * MIB), [3, 1]);
});

Deno.test("HeapKeeper.look() gives pages of the executable back that were needed since, when no caller has waited for some time, without a collection", () => {
  const { state, keeper } = setUp();
  const looks = (count: number) => {
    for (let i = 0; i < count; i++) keeper.look();
    return state.releases;
  };
  state.releases = 0;
  // What a second without work needs.
  state.files = 17 * MIB;
  assert.equal(looks(20), 0);
  state.garbage += MIB / 2;
  state.files = 18 * MIB;
  assert.deepEqual([looks(2), looks(1), looks(20)], [0, 1, 1]);
  state.isBusy = true;
  state.files = 30 * MIB;
  assert.equal(looks(20), 1);
  state.isBusy = false;
  assert.deepEqual([looks(9), looks(1), looks(20)], [1, 2, 2]);
  // What needs them each second gets them each second, and not for long.
  for (let i = 0; i < 20; i++) {
    state.files = 30 * MIB;
    looks(1);
  }
  assert.equal(state.releases, 12);
  assert.deepEqual(state.collections, []);
});

Deno.test("HeapKeeper.look() leaves alone what is not worth it", () => {
  const { state, keeper } = setUp();
  state.garbage = 0.9 * MIB;
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, []);
});

Deno.test("HeapKeeper.look() collects the last bit after a long rest, once", () => {
  const { state, keeper } = setUp();
  state.garbage = 2 * MIB;
  const looks = (count: number) => {
    for (let i = 0; i < count; i++) keeper.look();
    return state.collections.length;
  };
  assert.deepEqual([looks(4), looks(1), looks(10)], [0, 1, 1]);
});

Deno.test("HeapKeeper.look() does not take a trickle of garbage for rest", () => {
  const { state, keeper } = setUp();
  for (let i = 0; i < 100; i++) {
    state.garbage += MIB / 8;
    keeper.look();
  }
  assert.deepEqual(state.collections, [1]);
});

Deno.test("HeapKeeper.look() gives back the pages of a collection amid work, once all is at rest", () => {
  const { state, keeper } = setUp();
  state.garbage = 20 * MIB;
  keeper.look();
  assert.deepEqual(state.collections, [1]);
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, [1, 2]);
});

Deno.test("HeapKeeper.look() gives back the pages of a collection amid a trickle of work that does not end, when none waits", () => {
  const { state, keeper } = setUp();
  const trickle = (looks: number) => {
    for (let i = 0; i < looks; i++) {
      state.garbage += MIB / 10;
      keeper.look();
    }
    return state.collections;
  };
  state.garbage = 20 * MIB;
  assert.deepEqual(trickle(1), [1]);
  state.isBusy = true;
  assert.deepEqual(trickle(40), [1]);
  state.isBusy = false;
  assert.deepEqual(trickle(29), [1]);
  assert.deepEqual(trickle(1), [1, 2]);
  assert.deepEqual(trickle(60), [1, 2]);
});

Deno.test("HeapKeeper.look() lets those who wait for an answer wait for no collection, up to a limit", () => {
  const { state, keeper } = setUp({ busyBytes: 30 * MIB });
  state.isBusy = true;
  state.garbage = 29 * MIB;
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, []);
  state.garbage = 30 * MIB;
  keeper.look();
  assert.deepEqual(state.collections, [1]);
  state.garbage = 29 * MIB;
  state.isBusy = false;
  keeper.look();
  keeper.look();
  assert.deepEqual(state.collections, [1, 2]);
});

Deno.test("HeapKeeper.look() does not take for garbage what is in use", () => {
  const { state, keeper } = setUp();
  state.live = 80 * MIB;
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, [1, 2]);
  state.garbage = 4 * MIB;
  for (let i = 0; i < 10; i++) keeper.look();
  assert.deepEqual(state.collections, [1, 2, 2]);
});

Deno.test("HeapKeeper.look() gives back pages that V8 has emptied and kept", () => {
  const { state, keeper } = setUp();
  state.rest += 20 * MIB;
  for (let i = 0; i < 10; i++) keeper.look();
  assert.equal(state.collections.length, 1);
});

Deno.test("HeapKeeper.note() does not wait for the next look within a long list", () => {
  const { state, keeper } = setUp();
  for (let i = 0; i < 50_000; i++) {
    state.garbage += 2_000;
    keeper.note();
    assert.ok(state.garbage <= 13 * MIB, `${state.garbage} bytes`);
  }
  assert.ok(state.collections.length < 10);
});

Deno.test("HeapKeeper.note() does not wait for the next look when many objects were gone through", () => {
  const { state, keeper } = setUp();
  state.garbage += 13 * MIB;
  keeper.note(49);
  assert.deepEqual(state.collections, []);
  keeper.note(50_000);
  assert.equal(state.collections.length, 1);
});

Deno.test("measureOwn() counts what V8 holds outside of its heap, and the process's pages, those of files apart", () => {
  const before = measureOwn();
  const outside = new Uint8Array(64 * MIB).fill(1);
  const { heap, resident, files } = measureOwn();
  const grown = heap - before.heap;
  assert.ok(Math.abs(grown - outside.length) < 8 * MIB, `${grown} bytes`);
  const status = Deno.readTextFileSync("/proc/self/status");
  const own = 1024 * Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]);
  assert.ok(own > outside.length, `${own} bytes`);
  assert.ok(Math.abs(resident - own) < 8 * MIB, `${resident} and ${own} bytes`);
  const ofFiles = 1024 * Number(/^RssFile:\s+(\d+) kB$/m.exec(status)?.[1]);
  assert.ok(ofFiles > 8 * MIB, `${ofFiles} bytes`);
  assert.ok(
    Math.abs(files - ofFiles) < 8 * MIB,
    `${files} and ${ofFiles} bytes`,
  );
});

Deno.test("HeapKeeper's own collector gives memory back", () => {
  const keeper = new HeapKeeper();
  keeper.look();
  let garbage: unknown[] | undefined = [];
  for (let i = 0; i < 400_000; i++) garbage.push({ i });
  const beforeBytes = Deno.memoryUsage().heapUsed;
  garbage = undefined;
  keeper.look();
  keeper.look();
  assert.ok(
    Deno.memoryUsage().heapUsed < beforeBytes - 4e6,
    "nothing was collected",
  );
});

Deno.test("HeapKeeper goes on while the process has no free file descriptor", async () => {
  const keeper = JSON.stringify(import.meta.resolve("./heap_keeper.ts"));
  const program = `
    const { HeapKeeper } = await import(${keeper});
    const keeper = new HeapKeeper();
    const files = [];
    try {
      for (;;) files.push(Deno.openSync("/dev/null"));
    } catch (error) {
      console.log(error.code);
    }
    for (let i = 0; i < 6; i++) keeper.look();
    console.log("goes on");`;
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: [
      ...["-c", 'ulimit -n 100 && exec "$0" eval "$1"'],
      ...[Deno.execPath(), program],
    ],
  }).output();
  const text = new TextDecoder();
  assert.equal(
    text.decode(stdout),
    "EMFILE\ngoes on\n",
    text.decode(stderr),
  );
});
