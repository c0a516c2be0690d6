/** Helpers of the tests of the coordinator: its resource on a real API server. */
import type { JsonObject } from "../../lib/json/mod.ts";
import { parse } from "yaml";
import type { SpiderCoordinatorStatus } from "../../lib/api/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import { refusalsAt } from "./crds.ts";
import { patchStatus } from "./patch_status.ts";

const CRD = new URL(
  "../../deploy/coordinator/spiderpool.spidernet.io_spidercoordinators.yaml",
  import.meta.url,
);

/** Path of the API of SpiderCoordinators. */
export const SPIDER_PATH =
  "/apis/spiderpool.spidernet.io/v2beta1/spidercoordinators";

/** Applies the definition and waits until the API server serves it. */
export async function installSpiderCoordinators(
  plane: ControlPlane,
): Promise<void> {
  const crd = parse(await Deno.readTextFile(CRD));
  await plane.apply(crd);
  await plane.definitionsEstablished();
}

/** Creates an object; why it was refused, a line for each cause. */
export async function spiderRefusals(
  plane: ControlPlane,
  body: unknown,
): Promise<string[]> {
  return await refusalsAt(plane, { method: "POST", path: SPIDER_PATH, body });
}

/** The SpiderCoordinator that counts. */
export function spiderCoordinator(spec: JsonObject): unknown {
  return {
    apiVersion: "spiderpool.spidernet.io/v2beta1",
    kind: "SpiderCoordinator",
    metadata: { name: "default" },
    spec,
  };
}

/** Writes its status, as a controller does. */
export async function setSpiderStatus(
  plane: ControlPlane,
  status: SpiderCoordinatorStatus,
): Promise<void> {
  await patchStatus(plane, `${SPIDER_PATH}/default`, status);
}
