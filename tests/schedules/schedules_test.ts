// The address management of two nodes and of the controller, as it is, in every order that a seeded scheduler
// picks: who is answered when, what is lost, who dies. COIL_SCHEDULE_STEPS=1000000 looks for longer.
import assert from "node:assert/strict";
import { messageOf } from "../../lib/errors/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { Random, seedOfRun } from "../faults/random.ts";
import { Scheduler } from "./scheduler.ts";
import { World } from "./world.ts";

const STEPS = Number(Deno.env.get("COIL_SCHEDULE_STEPS") ?? 20_000);
/** Steps from one rest to the next. */
const STRETCH = 2_000;
/** Stretches of one world. */
const STRETCHES = 5;

configureLogging({ level: "panic", write: () => {} });

interface Outcome {
  readonly trace: number;
  readonly steps: number;
  readonly added: number;
  readonly addedToChanged: number;
}

async function runWorld(seed: number, stretches: number): Promise<Outcome> {
  const scheduler = new Scheduler(new Random(seed));
  using _time = scheduler.install();
  using world = new World(scheduler);
  try {
    for (let n = 0; n < stretches; n++) await world.run(STRETCH);
  } catch (error) {
    throw new Error(
      `COIL_TEST_SEED=${seed}, step ${scheduler.steps}: ${
        messageOf(error)
      }\n\n${scheduler.lately}`,
      { cause: error },
    );
  }
  const { trace, steps } = scheduler;
  const { added, addedToChanged } = world;
  return { trace, steps, added, addedToChanged };
}

Deno.test({
  name:
    "in any order of events no address has two holders, none that lives is freed, and none is lost",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    const first = await seedOfRun();
    let steps = 0;
    let added = 0;
    let addedToChanged = 0;
    for (let seed = first; steps < STEPS; seed++) {
      const outcome = await runWorld(seed, STRETCHES);
      steps += outcome.steps;
      added += outcome.added;
      addedToChanged += outcome.addedToChanged;
    }
    assert.ok(added > steps / 500, `${added} ADDs in ${steps} steps`);
    assert.ok(addedToChanged > 0, "no ADD beside reserved addresses");
    await t.step(
      `${steps} steps from seed ${first}, ${added} ADDs answered, ${addedToChanged} of them beside reserved addresses`,
      () => {},
    );
  },
});

Deno.test({
  name: "the same seed gives the same schedule",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    assert.deepEqual(await runWorld(7, 1), await runWorld(7, 1));
  },
});
