import assert from "node:assert/strict";
import { sleep, untilAborted } from "../../lib/async/mod.ts";
import type { Notification } from "../../lib/netlink/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { watchPlane } from "./plane_watch.ts";

const lines: string[] = [];
configureLogging({ write: (line) => lines.push(line) });

/** A gateway that has something missing or not, watched until it is disposed of. */
function watched(lookMs?: number) {
  const state = {
    damage: ["a rule"],
    lasting: [] as string[],
    repairs: 0,
    tries: 0,
    isBroken: false,
  };
  lines.length = 0;
  let told = Promise.withResolvers<Notification[]>();
  const controller = new AbortController();
  const ended = watchPlane({
    upkeep: {
      findDamage: () => Promise.resolve(state.damage),
      watch: () => ({
        next: async ({ signal }) => {
          const stopped = untilAborted(signal).then(() => []);
          const found = await Promise.race([told.promise, stopped]);
          signal.throwIfAborted();
          told = Promise.withResolvers();
          return found;
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
    },
    sync: {
      repair: () => {
        state.tries++;
        if (state.isBroken) return Promise.reject(new Error("refused"));
        state.damage = state.lasting;
        return Promise.resolve();
      },
    },
    onRepair: () => void state.repairs++,
    signal: controller.signal,
    ...(lookMs === undefined ? {} : { lookMs }),
  });
  return {
    state,
    tell: () => told.resolve([{ kind: "rule", family: "ipv4" }]),
    async until(holds: () => boolean): Promise<void> {
      const end = performance.now() + 10_000;
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
  assert.equal(lines.filter((line) => line.includes("trying again")).length, 1);
});

Deno.test("watchPlane() counts no repair of what stays as it is, and says so once", async () => {
  await using it = watched(30);
  it.state.damage = ["a rule", "a sysctl"];
  it.state.lasting = ["a sysctl"];
  await it.until(() => it.state.tries >= 4);
  assert.equal(it.state.repairs, 1);
  const told = (text: string) => lines.filter((line) => line.includes(text));
  assert.match(told("Put back").join(), /"problems":\["a rule"\]/);
  assert.equal(told("Cannot put back").length, 1);
  assert.match(told("Cannot put back")[0] ?? "", /"problems":\["a sysctl"\]/);
});
