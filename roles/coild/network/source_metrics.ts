import { Counter, Gauge, type Registry } from "../../../lib/telemetry/mod.ts";
import type { SourceGuard } from "./source_guard.ts";

/** Registers what is known of forged sources; it is read when scraped. */
export function observeSources(
  registry: Registry,
  guard: Pick<SourceGuard, "isInPlace" | "unrestricted" | "countForged">,
): void {
  const registers = [registry];
  new Gauge({
    name: "coil_coild_source_validation",
    help:
      "1 if the node drops pods' packets with forged sources, 0 if its kernel cannot",
    registers,
    collect() {
      this.set(guard.isInPlace ? 1 : 0);
    },
  });
  new Gauge({
    name: "coil_coild_any_source_pods",
    help: "Interfaces of pods that may send from any source",
    registers,
    collect() {
      this.set(guard.unrestricted);
    },
  });
  new Counter({
    name: "coil_coild_forged_packets_total",
    help: "Dropped packets of pods with a source that is not the pod's",
    labelNames: ["family"],
    registers,
    async collect() {
      const counts = await guard.countForged();
      if (counts === undefined) return;
      // The kernel counts; what it had when the table was recreated is forgotten.
      this.reset();
      this.inc({ family: "ipv4" }, counts.ipv4);
      this.inc({ family: "ipv6" }, counts.ipv6);
    },
  });
}
