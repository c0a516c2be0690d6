import assert from "node:assert/strict";
import { sleep, untilAborted } from "../../../lib/async/mod.ts";
import type {
  Listener,
  Notification,
  TableNotification,
} from "../../../lib/netlink/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { watchPlane } from "./plane_watch.ts";

let lines: string[] = [];

/** A monitor that tells what a test has it tell. */
function monitor<T>() {
  let told = Promise.withResolvers<T[]>();
  const listener: Listener<T> = {
    next: async ({ signal }) => {
      const stopped = untilAborted(signal).then(() => []);
      const found = await Promise.race([told.promise, stopped]);
      signal.throwIfAborted();
      told = Promise.withResolvers();
      return found;
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  return { listener, tell: (what: T) => told.resolve([what]) };
}

/** A gateway that has something missing or not, watched until it is disposed of. */
function watched(lookMs?: number) {
  const state = {
    damage: ["a rule"],
    /** Found only by who looks into the table. */
    inTable: [] as string[],
    lasting: [] as string[],
    repairs: 0,
    tries: 0,
    isBroken: false,
  };
  lines = loggedLines();
  const routes = monitor<Notification>();
  const table = monitor<TableNotification>();
  const controller = new AbortController();
  const ended = watchPlane({
    upkeep: {
      findDamage: (options) => {
        const inTable = options.table ? state.inTable : [];
        return Promise.resolve([...state.damage, ...inTable]);
      },
      watch: () => routes.listener,
      watchTable: () => table.listener,
    },
    sync: {
      repair: () => {
        state.tries++;
        if (state.isBroken) return Promise.reject(new Error("refused"));
        state.damage = state.lasting;
        state.inTable = [];
        return Promise.resolve();
      },
    },
    onRepair: () => void state.repairs++,
    signal: controller.signal,
    lookMs,
  });
  return {
    state,
    tell: () => routes.tell({ kind: "rule", family: "ipv4" }),
    tellOfTable: () => table.tell({ kind: "table" }),
    async until(holds: () => boolean): Promise<void> {
      const end = performance.now() + 60_000;
      while (!holds()) {
        assert.ok(performance.now() < end, `not so: ${holds}`);
        await sleep(2);
      }
    },
    async [Symbol.asyncDispose]() {
      controller.abort();
      await ended;
    },
  };
}

Deno.test("watchPlane() puts back what is missing at the start, and what is removed later", async () => {
  await using it = watched();
  await it.until(() => it.state.repairs === 1);
  it.state.damage = ["a route"];
  it.tell();
  await it.until(() => it.state.repairs === 2);
});

Deno.test("watchPlane() looks into the table at once when another program has changed it, not at other changes", async () => {
  await using it = watched();
  await it.until(() => it.state.repairs === 1);
  it.state.inTable = ["a chain"];
  it.tell();
  await sleep(100);
  assert.equal(it.state.repairs, 1);
  it.tellOfTable();
  await it.until(() => it.state.repairs === 2);
});

Deno.test("watchPlane() does nothing when nothing is missing", async () => {
  await using it = watched();
  await it.until(() => it.state.repairs === 1);
  it.tell();
  await sleep(100);
  assert.equal(it.state.repairs, 1);
});

Deno.test("watchPlane() looks from time to time although nobody tells", async () => {
  await using it = watched(30);
  await it.until(() => it.state.repairs === 1);
  it.state.damage = ["a link"];
  await it.until(() => it.state.repairs === 2);
});

Deno.test("watchPlane() looks into the table from time to time, too", async () => {
  await using it = watched(30);
  await it.until(() => it.state.repairs === 1);
  it.state.inTable = ["a chain"];
  await it.until(() => it.state.repairs === 2);
});

Deno.test("watchPlane() goes on after a repair that failed", async () => {
  await using it = watched();
  it.state.isBroken = true;
  await sleep(100);
  it.state.isBroken = false;
  await it.until(() => it.state.repairs === 1);
});

Deno.test("watchPlane() says once what fails again and again", async () => {
  await using it = watched();
  it.state.isBroken = true;
  await it.until(() => it.state.tries >= 4);
  assert.equal(lines.filter((line) => line.includes("retrying")).length, 1);
});

Deno.test("watchPlane() counts no repair of what stays as it is, and says so once", async () => {
  await using it = watched(30);
  it.state.damage = ["a rule", "a sysctl"];
  it.state.lasting = ["a sysctl"];
  await it.until(() => it.state.tries >= 4);
  assert.equal(it.state.repairs, 1);
  const told = (text: string) => lines.filter((line) => line.includes(text));
  assert.match(told("Restored").join(), /"problems":\["a rule"\]/);
  assert.equal(told("Cannot restore").length, 1);
  assert.match(told("Cannot restore")[0] ?? "", /"problems":\["a sysctl"\]/);
});
