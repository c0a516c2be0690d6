// What coild of the clients' node, the first one, says of itself.
import { eventually } from "../lab/wait.ts";
import type { EgressCluster } from "./e2e_cluster.ts";

const METRICS_PORT = 9384;

/** The metrics of that coild, as text. */
export async function scrapeCoild({ nodes }: EgressCluster): Promise<string> {
  const [{ addresses }] = nodes;
  const response = await fetch(
    `http://${addresses.ipv4}:${METRICS_PORT}/metrics`,
  );
  return await response.text();
}

/**
 * Waits until each gateway that coild knows has answered a probe: before that a loss is not noticed, and one that has
 * just started may be asked seldom. A gateway that has just come is known for sure once traffic goes by it.
 */
export async function awaitProbed(cluster: EgressCluster): Promise<void> {
  await eventually("an answer of each known gateway", async () => {
    const metrics = await scrapeCoild(cluster);
    const isIn = (state: string, count: string) =>
      new RegExp(
        `^coil_coild_egress_gateways\\{state="${state}"\\} ${count}$`,
        "m",
      )
        .test(metrics);
    return isIn("unknown", "0") && isIn("healthy", "[1-9]\\d*");
  });
}
