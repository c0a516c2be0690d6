import assert from "node:assert/strict";
import { sleep } from "../../lib/async/mod.ts";
import { FakeClock } from "../../lib/async/testing.ts";
import { dealt, runDenoTest } from "./deno_tests.ts";
import { DENO, onMachine } from "./processes.ts";
import { RUNNING_FILES_ENV, runningFiles } from "./running_files.ts";
import { eventually } from "../lab/wait.ts";

const REPORT = '<testsuites><testcase name="one" classname="a"/></testsuites>';

/** Runs nothing, and returns what deno would have got: its arguments and the text of the module among them. */
async function argumentsOf(
  options: {
    readonly paths: readonly string[];
    readonly together?: true;
    readonly longest?: readonly string[];
  },
): Promise<{ readonly args: readonly string[]; readonly module: string }> {
  let seen: readonly string[] = [];
  let module = "";
  const counts = await runDenoTest({
    ...options,
    args: [],
    filtered: false,
    show: () => {},
    run: async (args, { reportDir }) => {
      seen = args;
      module = await Deno.readTextFile(args.at(-1) ?? "").catch(() => "");
      await Deno.writeTextFile(`${reportDir}/junit.xml`, REPORT);
      return true;
    },
  });
  assert.equal(counts.passed, 1);
  return { args: seen, module };
}

Deno.test("runDenoTest() makes one module of all files of the paths, each once, sorted", async () => {
  const dir = await Deno.makeTempDir();
  const other = await Deno.makeTempDir();
  for (const name of ["b_test.ts", "a_test.ts", "lab.ts"]) {
    await Deno.writeTextFile(`${dir}/${name}`, "");
  }
  await Deno.writeTextFile(`${other}/c_test.ts`, "");
  const paths = [dir, `${other}/c_test.ts`, `${dir}/a_test.ts`, "/nowhere"];
  const { args, module } = await argumentsOf({ paths, together: true });
  assert.equal(args.filter((arg) => arg.endsWith("_test.ts")).length, 1);
  assert.deepEqual(module.trim().split("\n"), [
    `import "${dir}/a_test.ts";`,
    `import "${dir}/b_test.ts";`,
    `import "${other}/c_test.ts";`,
  ]);
  for (const one of [dir, other]) await Deno.remove(one, { recursive: true });
});

Deno.test("dealt() gives each part of the first files as of the last", () => {
  const files = [..."abcdefg"];
  assert.deepEqual(dealt(files, 1), [files]);
  assert.deepEqual(dealt(files, 2), [["a", "d", "e"], ["b", "c", "f", "g"]]);
  assert.deepEqual(dealt(["a"], 2), [["a"]]);
});

Deno.test("runDenoTest() runs a module for each job, counts both, and shows one after the other", async () => {
  const dir = await Deno.makeTempDir();
  for (const name of ["a", "b", "c", "d"]) {
    await Deno.writeTextFile(`${dir}/${name}_test.ts`, "");
  }
  const second = Promise.withResolvers<void>();
  const modules: string[] = [];
  let shown = "";
  const { passed, failures } = await runDenoTest({
    paths: [dir],
    args: [],
    filtered: false,
    together: true,
    jobs: 2,
    longest: [`${dir}/d_test.ts`],
    show: (bytes) => shown += new TextDecoder().decode(bytes),
    run: async (args, { lane = -1, output, reportDir }) => {
      assert.ok(!args.includes("--parallel"));
      modules[lane] = await Deno.readTextFile(args.at(-1) ?? "");
      output(new TextEncoder().encode(`lane ${lane} begins\n`));
      if (lane === 1) second.resolve();
      // The other one has begun by then.
      else await second.promise;
      output(new TextEncoder().encode(`lane ${lane} ends\n`));
      if (lane === 1) return false;
      await Deno.writeTextFile(`${reportDir}/junit.xml`, REPORT);
      return true;
    },
  });
  assert.deepEqual(modules, [
    `import "${dir}/c_test.ts";\nimport "${dir}/d_test.ts";\n`,
    `import "${dir}/a_test.ts";\nimport "${dir}/b_test.ts";\n`,
  ]);
  assert.deepEqual([passed, failures.length], [1, 1]);
  assert.deepEqual(shown.trim().split("\n"), [
    ...["lane 0 begins", "lane 0 ends", "lane 1 begins", "lane 1 ends"],
  ]);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("runDenoTest() gives its tests the environment of their suite", async () => {
  let seen: Readonly<Record<string, string>> = {};
  await runDenoTest({
    paths: [],
    args: [],
    filtered: false,
    env: { COIL_TEST_EXECUTABLE: "/a/coil" },
    show: () => {},
    run: (_args, { env = {} }) => {
      seen = env;
      return Promise.resolve(true);
    },
  });
  assert.equal(seen["COIL_TEST_EXECUTABLE"], "/a/coil");
});

Deno.test("runDenoTest() leaves files to deno that are not to be one module", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/a_test.ts`, "");
  const { args } = await argumentsOf({ paths: [dir, "/nowhere"] });
  assert.equal(args.at(-1), dir);
  assert.ok(!args.includes("/nowhere"));
  await Deno.remove(dir, { recursive: true });
});

Deno.test("runDenoTest() begins with the longest files, when they are among the paths", async () => {
  const dir = await Deno.makeTempDir();
  const [a, b, c] = ["a", "b", "c"].map((name) => `${dir}/${name}_test.ts`);
  for (const file of [a, b, c]) await Deno.writeTextFile(file ?? "", "");
  const longest = [c ?? "", "/nowhere_test.ts", b ?? ""];
  const { args } = await argumentsOf({ paths: [dir], longest });
  assert.deepEqual(args.slice(-3), [c, b, a]);
  const inner = `${dir}/b_room/d_test.ts`;
  await Deno.mkdir(`${dir}/b_room`);
  await Deno.writeTextFile(inner, "");
  const { args: deep } = await argumentsOf({ paths: [dir], longest: [inner] });
  assert.deepEqual(deep.slice(-4), [inner, a, b, c]);
  const { args: few } = await argumentsOf({ paths: [a ?? ""], longest });
  assert.deepEqual(few.filter((arg) => arg.endsWith("_test.ts")), [a]);
  await Deno.remove(dir, { recursive: true });
});

const SPINNING = `Deno.test("passes", () => {});
Deno.test("spins", () => {
  Deno.addSignalListener("SIGTERM", () => {});
  console.log("it spins");
  while (true);
});`;

const ENDED = [
  {
    how: "of files that run in turn",
    options: {},
    named: /^running: spins \(.*spinning_test\.ts\)$/m,
  },
  {
    how: "of files that run in parallel",
    options: { jobs: 2 },
    named: /^running: .*spinning_test\.ts, /m,
  },
];

for (const { how, options, named } of ENDED) {
  Deno.test(`runDenoTest() ends a spinning test and names it: ${how}`, async () => {
    const dir = await Deno.makeTempDir();
    await Deno.writeTextFile(
      `${dir}/good_test.ts`,
      `Deno.test("good", () => {});`,
    );
    await Deno.writeTextFile(`${dir}/spinning_test.ts`, SPINNING);
    const clock = new FakeClock();
    const spinning = Promise.withResolvers<void>();
    let output = "";
    let cleanUps = 0;
    const cleanUp = () => Promise.resolve(void cleanUps++);
    const ending = spinning.promise.then(() => clock.advance(20 * 60_000));
    const counts = await runDenoTest({
      paths: [dir],
      args: [],
      filtered: false,
      ...options,
      show: (bytes) => {
        output += new TextDecoder().decode(bytes);
        if (output.includes("it spins")) spinning.resolve();
      },
      run: onMachine(DENO, { cleanUp, graceMs: 0 }),
      clock,
    });
    await ending;
    assert.equal(cleanUps, 1);
    assert.equal(counts.failures.length, 1);
    assert.equal(
      counts.failures[0]?.name,
      "ended: it printed nothing for 20 minutes",
    );
    assert.match(counts.failures[0].lines.join("\n"), named);
    await Deno.remove(dir, { recursive: true });
  });
}

/** A short file and one that prints for ever, and spins now and then. */
const CHATTY = `Deno.test("passes", () => {});
Deno.test("spins", async () => {
  for (;;) {
    for (const end = Date.now() + 100; Date.now() < end;);
    console.log("it goes on");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});`;

const LIMITED = [
  {
    how: "of those that run in turn",
    options: { args: [] },
    name: /^ended: .*chatty_test\.ts took longer than 5 minutes$/,
    named: /^running: spins \(.*chatty_test\.ts\)$/m,
  },
  {
    how: "of those that run in parallel, by the suite's own limit",
    options: { args: [], jobs: 2, fileMinutes: 7 },
    name: /^ended: .*chatty_test\.ts took longer than 7 minutes$/,
    named: /^running: .*chatty_test\.ts, /m,
  },
  {
    how: "as a test, of those that are one module",
    options: { args: [], together: true },
    name: /^ended: "spins" took longer than 5 minutes$/,
    named: /^running: spins \(.*all_test\.ts\)$/m,
  },
];

for (const { how, options, name, named } of LIMITED) {
  Deno.test(`runDenoTest() ends a file that takes too long and names it: ${how}`, async () => {
    const dir = await Deno.makeTempDir();
    await Deno.writeTextFile(
      `${dir}/another_test.ts`,
      `Deno.test("good", () => {});`,
    );
    await Deno.writeTextFile(`${dir}/chatty_test.ts`, CHATTY);
    const clock = new FakeClock();
    const going = Promise.withResolvers<void>();
    let output = "";
    let isOver = false;
    let marks = "";
    const cleanUp = () => Promise.resolve();
    const runDeno = onMachine(DENO, { cleanUp, graceMs: 0 });
    const run = runDenoTest({
      paths: [dir],
      filtered: false,
      ...options,
      show: (bytes) => {
        output += new TextDecoder().decode(bytes);
        if (output.includes("it goes on")) going.resolve();
      },
      run: (args, more) => {
        marks = more.env?.[RUNNING_FILES_ENV] ?? "";
        return runDeno(args, more);
      },
      clock,
    }).finally(() => isOver = true);
    await going.promise;
    // The clock is faster than the other file's end, which may come after this.
    await eventually(
      "one file to run",
      async () => (await runningFiles(marks)).length === 1,
    );
    const startMs = clock.nowMs();
    while (!isOver) {
      await clock.advance(15_000);
      // The marks are read from real files.
      await sleep(50);
    }
    const minutes = (clock.nowMs() - startMs) / 60_000;
    assert.ok(minutes >= (options.fileMinutes ?? 5), `after ${minutes}`);
    const { failures } = await run;
    assert.equal(failures.length, 1);
    assert.match(failures[0]?.name ?? "", name);
    assert.match(failures[0]?.lines.join("\n") ?? "", named);
    await Deno.remove(dir, { recursive: true });
  });
}

Deno.test("runDenoTest() does not end a suite that prints something in time", async () => {
  const clock = new FakeClock();
  const counts = await runDenoTest({
    paths: [],
    args: [],
    filtered: false,
    show: () => {},
    run: async (_args, { output, signal }) => {
      for (let i = 0; i < 3; i++) {
        await clock.advance(19 * 60_000);
        output(new TextEncoder().encode("one ... ok\n"));
      }
      return !signal.aborted;
    },
    clock,
  });
  assert.deepEqual(counts.failures, []);
});

Deno.test("runDenoTest() ends a suite of which only deno says that it is slow", async () => {
  const clock = new FakeClock();
  const counts = await runDenoTest({
    paths: [],
    args: [],
    filtered: false,
    show: () => {},
    run: async (_args, { output, signal }) => {
      const notice = "'one' has been running for over (16m0s)\n";
      await clock.advance(16 * 60_000);
      output(new TextEncoder().encode(notice));
      await clock.advance(4 * 60_000);
      return !signal.aborted;
    },
    clock,
  });
  assert.equal(counts.failures.length, 1);
});
