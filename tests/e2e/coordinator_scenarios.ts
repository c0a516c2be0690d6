// The coordinator on a real cluster: pods with further interfaces, and pods
// without any of Coil's network.
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { multusScenarios } from "./multus_scenarios.ts";
import { PhysicalSwitch } from "./physical_switch.ts";
import { NAME_CACHE, underlayScenarios } from "./underlay_scenarios.ts";

const DEFAULTS = {
  apiVersion: "spiderpool.spidernet.io/v2beta1",
  kind: "SpiderCoordinator",
  metadata: { name: "default" },
  spec: { podCIDRType: "auto", hijackCIDR: [NAME_CACHE] },
};

/** All of them, one after the other; the last one restarts node1. */
export async function coordinatorScenarios(
  t: Deno.TestContext,
  site: Installation,
): Promise<void> {
  const { plane } = site;
  await plane.apply(DEFAULTS);
  await eventually("the status of SpiderCoordinator", async () => {
    const phase = await plane.kubectl(
      ...["get", "spidercoordinators", "default"],
      ...["-o", "jsonpath={.status.phase}"],
    );
    return phase === "Synced";
  });
  await using physical = await PhysicalSwitch.start(site);
  await multusScenarios(t, { site, physical });
  await underlayScenarios(t, { site, physical });
}
