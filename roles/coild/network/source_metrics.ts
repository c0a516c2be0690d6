import type { SourceGuard } from "./source_guard.ts";
import { MetricFactory, type Registry } from "../../../lib/telemetry/mod.ts";

/** Registers what is known of forged sources; it is read when scraped. */
export function observeSources(
  registry: Registry,
  guard: Pick<SourceGuard, "isInPlace" | "unrestricted" | "countForged">,
): void {
  const make = new MetricFactory(registry);
  make.gauge("coil_coild_source_validation", {
    help:
      "1 if the node drops pods' packets with forged sources, 0 if its kernel cannot",
    read: () => guard.isInPlace ? 1 : 0,
  });
  make.gauge("coil_coild_any_source_pods", {
    help: "Interfaces of pods that may send from any source",
    read: () => guard.unrestricted,
  });
  make.counter("coil_coild_forged_packets_total", {
    help: "Dropped packets of pods with a source that is not the pod's",
    labels: ["family"],
    collect: async (counter) => {
      const counts = await guard.countForged();
      if (counts === undefined) return;
      // The kernel counts; what it had when the table was recreated is forgotten.
      counter.reset();
      counter.inc({ family: "ipv4" }, counts.ipv4);
      counter.inc({ family: "ipv6" }, counts.ipv6);
    },
  });
}
