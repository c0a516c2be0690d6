// Random steps of runtimes, pods, admins and failures, with kernel, API server and runtime compared again and again.
import { messageOf } from "../../lib/errors/mod.ts";
import { say } from "../runner/output.ts";
import { Driver, type Length } from "./driver.ts";
import { History } from "./history.ts";
import { Random, seedOfRun } from "./random.ts";
import { Site } from "./site.ts";

/** Unless it is said how many steps there are, a slow machine makes fewer of them. */
const USUAL: Length = { steps: 3_000, atLeast: 750, ms: 120_000 };

const given = Deno.env.get("COIL_FAULT_STEPS");
const length = given ? { steps: Number(given) } : USUAL;
const seed = await seedOfRun();
/** Runs whose seeds are given may go on at the same time; another one of the same seed waits. */
const lab = Deno.env.get("COIL_TEST_SEED") ? `faults-${seed}` : "faults";

Deno.test({
  name: "random steps lose no address, double none, and leave nothing behind",
  fn: async () => {
    const history = new History();
    try {
      await using site = await Site.start(lab);
      try {
        await new Driver(site, new Random(seed), history).run(length);
      } catch (error) {
        history.note(`kept the daemons' logs in ${await site.keepLogs()}`);
        throw error;
      }
      say(`seed ${seed}: ${history.summary}`);
    } catch (error) {
      const message = messageOf(error);
      throw new Error(
        `COIL_TEST_SEED=${seed}, step ${history.steps} of ${length.steps}: ${message}\n\n${
          history.about(message)
        }`,
        { cause: error },
      );
    }
  },
});
