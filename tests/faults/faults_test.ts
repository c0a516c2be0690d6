// Random steps of runtimes, pods, admins and failures, with kernel, API server and runtime compared again and again.
import { Driver } from "./driver.ts";
import { History } from "./history.ts";
import { Random, seedOfRun } from "./random.ts";
import { Site } from "./site.ts";

/** About two minutes. */
const STEPS = Number(Deno.env.get("COIL_FAULT_STEPS") ?? 3_000);

const seed = await seedOfRun();

Deno.test({
  name:
    `${STEPS} random steps lose no address, double none, and leave nothing behind`,
  fn: async (t) => {
    const history = new History();
    try {
      await using site = await Site.start("faults");
      await new Driver(site, new Random(seed), history).run(STEPS);
      await t.step(`seed ${seed}: ${history.summary}`, () => {});
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(
        `COIL_TEST_SEED=${seed}, step ${history.steps} of ${STEPS}: ${message}\n\n${
          history.about(message)
        }`,
        { cause: error },
      );
    }
  },
});
