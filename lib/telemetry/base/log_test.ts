import assert from "node:assert/strict";
import {
  configureLogging,
  getLogger,
  type LoggingOptions,
  withLogContext,
} from "../mod.ts";
import { describeError } from "./log_format.ts";

function capture(options: LoggingOptions = {}): string[] {
  const lines: string[] = [];
  configureLogging({ ...options, write: (line) => lines.push(line) });
  return lines;
}

Deno.test("Logger writes one JSON object per record, in upstream's order", () => {
  const lines = capture();
  const before = Date.now() / 1000;
  getLogger("node-ipam").info("Allocated address", {
    pool: "default",
    big: 1n,
  });
  assert.match(
    lines[0] ?? "",
    /^\{"level":"info","ts":[0-9.]+,"logger":"node-ipam","msg":"Allocated address",/,
  );
  const { ts, ...rest } = JSON.parse(lines[0] ?? "");
  assert.ok(ts >= before && ts <= before + 10, `${ts}`);
  assert.deepEqual(rest, {
    level: "info",
    logger: "node-ipam",
    msg: "Allocated address",
    pool: "default",
    big: "1",
  });
});

Deno.test("Logger does not interpret the message", () => {
  const lines = capture();
  getLogger("a.b").warn("Odd {pool} text {", { pool: "x" });
  const record = JSON.parse(lines[0] ?? "");
  assert.equal(record.msg, "Odd {pool} text {");
  assert.equal(record.level, "warn");
  assert.equal(record.logger, "a.b");
});

Deno.test("Logger writes err as error, with its causes and without a stack", () => {
  const lines = capture();
  const err = new Error("Cannot add route", {
    cause: new Error("kernel returned EEXIST"),
  });
  getLogger("setup").error("Failed", { err });
  getLogger("setup").error("Failed", { err: "text" });
  const [first, second] = lines.map((line) => JSON.parse(line));
  assert.equal(first.error, "Cannot add route: kernel returned EEXIST");
  assert.equal("err" in first || "stacktrace" in first, false);
  assert.equal(second.error, "text");
});

Deno.test("Logger writes the stack from the stack level on", () => {
  const lines = capture({ stacktraceLevel: "error" });
  getLogger("setup").warn("Failed", { err: new Error("x") });
  getLogger("setup").error("Failed", { err: new Error("x") });
  assert.equal("stacktrace" in JSON.parse(lines[0] ?? ""), false);
  assert.match(JSON.parse(lines[1] ?? "").stacktrace, /log_test\.ts/);
});

Deno.test("Logger leaves out records below the level", () => {
  const lines = capture({ level: "error" });
  const log = getLogger("x");
  log.debug("d");
  log.info("i");
  log.warn("w");
  log.error("e");
  assert.deepEqual(lines.map((line) => JSON.parse(line).msg), ["e"]);
  const debug = capture({ level: "debug" });
  log.debug("d");
  assert.equal(debug.length, 1);
  assert.equal(lines.length, 1, "the configuration was replaced");
});

Deno.test("Logger survives data that JSON cannot hold", () => {
  const lines = capture();
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const failing = {
    toJSON() {
      throw new Error("no");
    },
  };
  getLogger("x").warn("Odd", {
    cyclic,
    failing,
    nested: { error: new Error("a", { cause: "b" }), big: 2n ** 64n },
    map: new Map([["k", new Set([1n])]]),
    nothing: undefined,
    pool: "default",
  });
  const { ts, ...rest } = JSON.parse(lines[0] ?? "");
  assert.equal(typeof ts, "number");
  assert.deepEqual(rest, {
    level: "warn",
    logger: "x",
    msg: "Odd",
    cyclic: "unprintable: Converting circular structure to JSON",
    failing: "unprintable: no",
    nested: { error: "a: b", big: "18446744073709551616" },
    map: { k: ["1"] },
    pool: "default",
  });
});

Deno.test("Logger keeps fields apart from what every record has", () => {
  const lines = capture();
  getLogger("x").info("Text", { level: 3, ts: 1, logger: "y", msg: "z" });
  const { level, logger, msg, level_, msg_ } = JSON.parse(lines[0] ?? "");
  assert.deepEqual({ level, logger, msg, level_, msg_ }, {
    level: "info",
    logger: "x",
    msg: "Text",
    level_: 3,
    msg_: "z",
  });
});

Deno.test("withLogContext() adds fields to all records inside, across waits, and only there", async () => {
  const lines = capture();
  const log = getLogger("x");
  await withLogContext({ containerId: "c1" }, async () => {
    await Promise.resolve();
    withLogContext(
      { iface: "eth0" },
      () => log.info("inside", { iface: "eth1" }),
    );
  });
  log.info("outside");
  const [inside, outside] = lines.map((line) => JSON.parse(line));
  assert.equal(inside.containerId, "c1");
  assert.equal(inside.iface, "eth1");
  assert.equal("containerId" in outside, false);
});

for (
  const [timeEncoding, form] of [
    ["epoch", /^[0-9]{10}(\.[0-9]+)?$/],
    ["millis", /^[0-9]{13}(\.[0-9]+)?$/],
    ["nano", /^[0-9]{19}$/],
    ["iso8601", /^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000"$/],
    ["rfc3339", /^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"$/],
    ["rfc3339nano", /^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"$/],
  ] as const
) {
  Deno.test(`configureLogging() writes times as ${timeEncoding}`, () => {
    const lines = capture({ timeEncoding });
    getLogger("x").info("m");
    assert.match(JSON.stringify(JSON.parse(lines[0] ?? "").ts), form);
  });
}

Deno.test("configureLogging() writes the console form", () => {
  const lines = capture({ encoder: "console", timeEncoding: "iso8601" });
  getLogger("setup").info("Started", { port: 1 });
  assert.match(
    lines[0] ?? "",
    /^\d{4}-\S+\tINFO\tsetup\tStarted\t\{"port":1\}$/,
  );
});

Deno.test("describeError() says each thing once, and ends on cycles", () => {
  const looped = new Error("loop");
  looped.cause = looped;
  const containing = new AggregateError([new Error("a")], "All");
  containing.errors.push(containing);
  const cases: [unknown, string][] = [
    [new Error("a", { cause: new Error("b", { cause: "c" }) }), "a: b: c"],
    [new Error("Cannot x: b", { cause: new Error("b") }), "Cannot x: b"],
    [looped, "loop"],
    [new TypeError("x is undefined"), "x is undefined"],
    [
      new Error("Cannot reach it", { cause: new RangeError("port 70000") }),
      "Cannot reach it: port 70000",
    ],
    [
      new Error("Cannot x: no y", { cause: new TypeError("no y") }),
      "Cannot x: no y",
    ],
    [new TypeError(), "TypeError"],
    [
      new AggregateError([new Error("a"), new Error("b")], "Both failed"),
      "Both failed (a; b)",
    ],
    [
      new SuppressedError(new Error("undo"), new Error("first")),
      "undo (after: first)",
    ],
    [containing, "All (a)"],
    [{ code: 5 }, '{"code":5}'],
    [Object.create(null), "{}"],
    [Symbol("s"), "Symbol(s)"],
    [null, ""],
    [new DOMException("Too slow", "TimeoutError"), "Too slow"],
  ];
  for (const [error, text] of cases) assert.equal(describeError(error), text);
});

/** What records can be made long with: names, lists, objects, errors, in each other. */
function longValues(): Readonly<Record<string, unknown>> {
  const long = "n".repeat(300_000);
  const many = Array.from({ length: 100_000 }, (_, n) => `nat/egress-${n}`);
  const nested = Array.from(
    { length: 60 },
    () => Array.from({ length: 60 }, () => Array(60).fill("x".repeat(100))),
  );
  return {
    text: long,
    controls: "\u0001".repeat(300_000),
    quotes: '"'.repeat(300_000),
    surrogates: "🧵".repeat(150_000),
    list: many,
    set: new Set(many),
    map: new Map(many.map((name) => [name, 1])),
    object: Object.fromEntries(many.map((name) => [name, name])),
    nested,
    deep: { list: [{ name: long }, { name: long }] },
    number: 10n ** 20_000n,
    err: new Error(long, { cause: new AggregateError(many.map(Error), long) }),
    json: { toJSON: () => many },
  };
}

for (const encoder of ["json", "console"] as const) {
  Deno.test(`Logger bounds each field, no matter who chose what is in it (${encoder})`, () => {
    const lines = capture({ encoder, stacktraceLevel: "info" });
    for (const [name, value] of Object.entries(longValues())) {
      getLogger("egress").info("Looked at a pod", {
        [name]: value,
        pod: "team/client-0",
      });
      const line = lines.at(-1) ?? "";
      // An error has its stack beside it.
      assert.ok(line.length < 26_000, `${name}: ${line.length}`);
      assert.match(line, /"pod":"team\/client-0"/, name);
      const json = encoder === "json" ? line : line.split("\t").at(-1) ?? "";
      assert.doesNotThrow(() => JSON.parse(json), name);
    }
    getLogger("egress").info("m".repeat(300_000));
    assert.ok((lines.at(-1) ?? "").length < 9_000);
  });
}

Deno.test("Logger says how much it left out, and leaves the rest as it is", () => {
  const lines = capture();
  const names = Array.from({ length: 70 }, (_, n) => `e${n}`);
  getLogger("egress").info("Looked at a pod", {
    names,
    few: names.slice(0, 64),
    text: "n".repeat(20_000),
    short: "n".repeat(2_048),
  });
  const record = JSON.parse(lines[0] ?? "");
  assert.equal(record.names.length, 65);
  assert.equal(record.names.at(-1), "… and 6 more");
  assert.equal(record.few.length, 64);
  assert.match(record.text, /^n{8192}… \(20000 characters\)$/);
  assert.equal(record.short.length, 2_048);
});
