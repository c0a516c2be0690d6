import assert from "node:assert/strict";
import { sleep, untilAborted } from "../../lib/async/mod.ts";
import type { Notification } from "../../lib/netlink/mod.ts";
import { watchPlane } from "./plane_watch.ts";

/** A gateway that has something missing or not, watched until it is disposed of. */
function watched(lookMs?: number) {
  const state = { damage: ["a rule"], repairs: 0, isBroken: false };
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
        if (state.isBroken) return Promise.reject(new Error("refused"));
        state.damage = [];
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
