// How the end-to-end tests run: one cluster for many scenarios, since it takes
// some seconds to start one.
import assert from "node:assert/strict";
import { type ClusterOptions, EgressCluster } from "./e2e_cluster.ts";
import { takeSources } from "./topology.ts";

/** What happens on a running cluster. */
export type Scenario = (cluster: EgressCluster) => Promise<void>;

/** Registers one test whose steps are the scenarios; after each, nothing may have left by a wrong source. */
export function egressTest(
  name: string,
  options: {
    /** Of the cluster. */
    readonly cluster?: ClusterOptions;
    readonly setUp: Scenario;
    readonly scenarios: Readonly<Record<string, Scenario>>;
  },
): void {
  const run = async (t: Deno.TestContext) => {
    await using cluster = await EgressCluster.start(options.cluster);
    await reported(cluster, () => options.setUp(cluster));
    for (const [title, scenario] of Object.entries(options.scenarios)) {
      await t.step({
        name: title,
        // The cluster works on in the meantime; the whole test must leave nothing.
        sanitizeOps: false,
        sanitizeResources: false,
        fn: () =>
          reported(cluster, async () => {
            await scenario(cluster);
            await expectNoLeak();
          }),
      });
    }
  };
  Deno.test({
    name,
    // Deno.connect() leaves a connection open that is made just when its time is over.
    sanitizeResources: false,
    fn: (t) => run(t).catch(rethrow),
  });
}

/** Fails when a packet came outside, since the last time that this was asked, whose source is neither a gateway's nor one of these. */
export async function expectNoLeak(
  allowed: readonly string[] = [],
): Promise<void> {
  const { wrongSources } = await takeSources();
  const leaks = wrongSources.filter((source) => !allowed.includes(source));
  assert.deepEqual(leaks, [], "wrong sources outside");
}

/** Of an error that came while another was on its way the runner would show neither. */
function rethrow(error: unknown): never {
  if (!(error instanceof SuppressedError)) throw error;
  throw new AggregateError([error.suppressed, error.error], error.message);
}

async function reported(
  cluster: EgressCluster,
  run: () => Promise<void>,
): Promise<void> {
  try {
    await run();
  } catch (error) {
    const text = `${await cluster.logs()}\n`;
    await Deno.stderr.write(new TextEncoder().encode(text));
    throw error;
  }
}
