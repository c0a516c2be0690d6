import type { Probes } from "../../../lib/coordinator/mod.ts";
import type { CoordinatorMetrics, ProbeKind, ProbeResult } from "./metrics.ts";

/** Probes that are counted and timed. */
export function countedProbes(
  probes: Probes,
  records: Pick<CoordinatorMetrics, "probed">,
): Probes {
  const counted = async <T>(
    kind: ProbeKind,
    probe: () => Promise<T>,
    resultOf: (found: T) => ProbeResult,
  ): Promise<T> => {
    const startedMs = performance.now();
    let result: ProbeResult = "error";
    try {
      const found = await probe();
      result = resultOf(found);
      return found;
    } finally {
      records.probed(kind, result, performance.now() - startedMs);
    }
  };
  return {
    findConflict: (...args) =>
      counted(
        "conflict",
        () => probes.findConflict(...args),
        (mac) => mac === undefined ? "ok" : "failed",
      ),
    answers: (...args) =>
      counted(
        "gateway",
        () => probes.answers(...args),
        (alive) => alive ? "ok" : "failed",
      ),
    announce: (...args) =>
      counted("announce", () => probes.announce(...args), () => "ok"),
  };
}
