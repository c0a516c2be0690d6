// Two coil-controllers that both believe they lead, as they are, in every order that a seeded scheduler picks.
import assert from "node:assert/strict";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { Random, seedOfRun } from "../faults/random.ts";
import { Scheduler } from "./scheduler.ts";
import { SlicesWorld } from "./slices_world.ts";

const STEPS = Number(Deno.env.get("COIL_SCHEDULE_STEPS") ?? 100_000);
/** Steps of one world. */
const STRETCH = 200;

configureLogging({ level: "panic", write: () => {} });

async function runWorld(seed: number) {
  const scheduler = new Scheduler(new Random(seed));
  using _time = scheduler.install();
  using world = new SlicesWorld(scheduler);
  const describe = (what: string) =>
    `COIL_TEST_SEED=${seed}, step ${scheduler.steps}: ${what}\n\n${scheduler.lately}`;
  try {
    await world.run(STRETCH);
  } catch (cause) {
    throw new Error(describe(String(cause)), { cause });
  }
  const { writes, losses } = world;
  return { steps: scheduler.steps, writes, losses, describe };
}

Deno.test({
  name:
    "with two leaders a gateway never loses a client that stays, in any order of events",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    const first = await seedOfRun();
    let steps = 0;
    let writes = 0;
    for (let seed = first; steps < STEPS; seed++) {
      const world = await runWorld(seed);
      assert.deepEqual(world.losses, [], world.describe("lost clients"));
      steps += world.steps;
      writes += world.writes;
    }
    assert.ok(writes > steps / 100, `${writes} writes in ${steps} steps`);
    await t.step(
      `${steps} steps from seed ${first}, ${writes} writes`,
      () => {},
    );
  },
});
