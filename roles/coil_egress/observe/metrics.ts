import { SERVER_LINK_NAMES } from "../../../lib/egress/mod.ts";
import { Counter, Gauge, type Registry } from "../../../lib/telemetry/mod.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import type { ReadingName } from "./readings.ts";

/** What the metrics of clients read when they are scraped. */
export interface ClientSources {
  readonly identity: GatewayIdentity;
  readonly pods: () => Iterable<ClientPod>;
  readonly announcedCount: () => number;
  readonly sharedCount: () => number;
}

/** What coil-egress counts itself, and its clients; the pods' metrics have upstream's names. */
export class EgressMetrics {
  readonly #syncs: Counter<"result">;
  readonly #failures: Counter<"reading">;
  readonly #announcements: Counter<"code">;
  readonly #repairs: Counter;
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    const registers = this.#registers = [registry];
    this.#syncs = new Counter({
      name: "coil_egress_client_syncs_total",
      help: "Kernel transactions that changed clients",
      labelNames: ["result"],
      registers,
    });
    this.#failures = new Counter({
      name: "coil_egress_reading_failures_total",
      help: "Failed reads of kernel counters",
      labelNames: ["reading"],
      registers,
    });
    this.#announcements = new Counter({
      name: "coil_egress_announcements_total",
      help: "Announcements of clients, by status code of the answer",
      labelNames: ["code"],
      registers,
    });
    this.#repairs = new Counter({
      name: "coil_egress_repairs_total",
      help:
        "Repairs of links, rules, routes, sysctls or the nftables table that other programs removed or changed",
      registers,
    });
    this.#repairs.inc(0);
    for (const result of ["ok", "error"]) this.#syncs.inc({ result }, 0);
    for (const reading of ["counters", "flows", "conntrack", "limited"]) {
      this.#failures.inc({ reading }, 0);
    }
    this.#announcements.inc({ code: "204" }, 0);
  }

  /** Counts a transaction. */
  synced(result: "ok" | "error"): void {
    this.#syncs.inc({ result });
  }

  /** Counts that something was put back. */
  repaired(): void {
    this.#repairs.inc();
  }

  /** Counts a reading that failed. */
  readingFailed(reading: ReadingName): void {
    this.#failures.inc({ reading });
  }

  /** Counts the answer to an announcement. */
  announced(status: number): void {
    this.#announcements.inc({ code: String(status) });
  }

  /** Registers what is read when it is scraped. */
  observe({ identity, pods, ...counts }: ClientSources): void {
    const registers = this.#registers;
    const { namespace, egress } = identity;
    new Gauge({
      name: "coil_egress_client_pod_count",
      help: "Pods that use this Egress",
      labelNames: ["namespace", "egress"],
      registers,
      collect() {
        this.set({ namespace, egress }, [...pods()].length);
      },
    });
    new Gauge({
      name: "coil_egress_client_pod_info",
      help: "Addresses of the pods that use this Egress",
      labelNames: [
        ...["namespace", "pod", "pod_ip", "interface"] as const,
        ...["egress", "egress_namespace"] as const,
      ],
      registers,
      collect() {
        this.reset();
        for (const pod of pods()) {
          for (const address of pod.addresses) {
            if (identity.addresses[address.family] === undefined) continue;
            this.set({
              namespace: pod.namespace,
              pod: pod.name,
              pod_ip: address.toString(),
              interface: SERVER_LINK_NAMES[address.family],
              egress,
              egress_namespace: namespace,
            }, 1);
          }
        }
      },
    });
    const { announcedCount, sharedCount } = counts;
    new Gauge({
      name: "coil_egress_announced_clients",
      help:
        "Pods known only from their announcement, not yet from their status",
      registers,
      collect() {
        this.set(announcedCount());
      },
    });
    new Gauge({
      name: "coil_egress_shared_addresses",
      help: "Addresses of more than one live pod",
      registers,
      collect() {
        this.set(sharedCount());
      },
    });
  }
}
