import {
  SPIDER_NOT_READY,
  SPIDER_SYNCED,
  type SpiderCoordinatorStatus,
} from "../../../lib/api/mod.ts";
import type { Cidrs } from "./cidrs.ts";

/**
 * Computes the status from what was found. What is not known keeps its last value, and
 * `reason` says so; it is not ready only while something was never known.
 */
export function statusOf(
  { pods, services }: { readonly pods: Cidrs; readonly services: Cidrs },
  former: SpiderCoordinatorStatus = {},
): SpiderCoordinatorStatus {
  const wasKnown = former.phase === SPIDER_SYNCED;
  const problems = [services, pods].flatMap((found) =>
    "unknown" in found ? [found.unknown] : []
  );
  const isReady = wasKnown || problems.length === 0;
  const kept = problems.length > 0 && wasKnown
    ? "the last known values stay in force: "
    : "";
  return {
    phase: isReady ? SPIDER_SYNCED : SPIDER_NOT_READY,
    reason: kept + problems.join("; "),
    overlayPodCIDR: valueOf(pods, former.overlayPodCIDR),
    serviceCIDR: valueOf(services, former.serviceCIDR),
  };
}

function valueOf(
  found: Cidrs,
  last: readonly string[] | null | undefined,
): readonly string[] {
  return "cidrs" in found ? found.cidrs : last ?? [];
}

/** A text that differs when a status does. */
export function statusText(
  { phase, reason, overlayPodCIDR, serviceCIDR }: SpiderCoordinatorStatus = {},
): string {
  return JSON.stringify([
    phase ?? "",
    reason ?? "",
    overlayPodCIDR ?? [],
    serviceCIDR ?? [],
  ]);
}
