import assert from "node:assert/strict";
import { openLibc } from "../../lib/linux/mod.ts";
import { Housekeeping } from "./housekeeping.ts";

// Once for the process, and not a leak of the test that comes first.
openLibc();

function setUp() {
  const state = { calls: 0, inFlight: 0, collected: 0 };
  const keeper = new Housekeeping({
    calls: () => state.calls,
    inFlight: () => state.inFlight,
    collect: () => state.collected++,
  });
  return { state, keeper };
}

Deno.test("Housekeeping collects in a quiet moment after some calls, once", () => {
  const { state, keeper } = setUp();
  state.calls = 49;
  keeper.look();
  assert.equal(state.collected, 0);
  state.calls = 50;
  keeper.look();
  keeper.look();
  keeper.look();
  assert.equal(state.collected, 1);
});

Deno.test("Housekeeping does not collect between two pods of many that come one after the other", () => {
  const { state, keeper } = setUp();
  while (state.calls < 200) {
    state.calls += 20;
    keeper.look();
  }
  assert.equal(state.collected, 0);
  keeper.look();
  assert.equal(state.collected, 1);
});

Deno.test("Housekeeping waits while calls are under way, but not for ever", () => {
  const { state, keeper } = setUp();
  state.inFlight = 3;
  state.calls = 219;
  keeper.look();
  assert.equal(state.collected, 0);
  state.calls = 220;
  keeper.look();
  assert.equal(state.collected, 1);
});

Deno.test("Housekeeping can really collect", () => {
  const keeper = new Housekeeping({ calls: () => 1_000, inFlight: () => 0 });
  keeper.look();
});
