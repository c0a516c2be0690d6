import { SERVER_LINK_NAMES } from "../../../lib/egress/mod.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import type { ReadingName } from "./readings.ts";
import {
  type Counter,
  MetricFactory,
  type Registry,
} from "../../../lib/telemetry/mod.ts";

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
  readonly #make: MetricFactory;

  constructor(registry: Registry) {
    const make = this.#make = new MetricFactory(registry);
    this.#syncs = make.counter("coil_egress_client_syncs_total", {
      help: "Kernel transactions that changed clients",
      labels: ["result"],
    });
    this.#failures = make.counter("coil_egress_reading_failures_total", {
      help: "Failed reads of kernel counters",
      labels: ["reading"],
    });
    this.#announcements = make.counter("coil_egress_announcements_total", {
      help: "Announcements of clients, by status code of the answer",
      labels: ["code"],
    });
    this.#repairs = make.counter("coil_egress_repairs_total", {
      help:
        "Repairs of links, rules, routes, sysctls or the nftables table that other programs removed or changed",
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
    const make = this.#make;
    const { namespace, egress } = identity;
    make.gauge("coil_egress_client_pod_count", {
      help: "Pods that use this Egress",
      labels: ["namespace", "egress"],
      collect: (gauge) => {
        gauge.set({ namespace, egress }, [...pods()].length);
      },
    });
    make.gauge("coil_egress_client_pod_info", {
      help: "Addresses of the pods that use this Egress",
      labels: [
        ...["namespace", "pod", "pod_ip", "interface"] as const,
        ...["egress", "egress_namespace"] as const,
      ],
      collect: (gauge) => {
        gauge.reset();
        for (const pod of pods()) {
          for (const address of pod.addresses) {
            if (identity.addresses[address.family] === undefined) continue;
            gauge.set({
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
    make.gauge("coil_egress_announced_clients", {
      help:
        "Pods known only from their announcement, not yet from their status",
      read: announcedCount,
    });
    make.gauge("coil_egress_shared_addresses", {
      help: "Addresses of more than one live pod",
      read: sharedCount,
    });
  }
}
