import {
  conditionOf,
  type Egress,
  EGRESS_READY,
  gatewayLosses,
} from "../../../lib/api/mod.ts";
import type { Store } from "../../../lib/kube/mod.ts";
import { MetricFactory, type Registry } from "../../../lib/telemetry/mod.ts";

/** Registers gauges of Egresses and their gateways, which read the cache when scraped. An Egress without a status counts as not ready. */
export function observeEgresses(
  registry: Registry,
  egresses: Pick<Store<Egress>, "list">,
): void {
  const make = new MetricFactory(registry);
  make.gauge("coil_controller_egress_ready", {
    help: "1 if a gateway of the Egress is available, otherwise 0.",
    // The label "namespace" is that of the controller in Prometheus.
    labels: ["egress_namespace", "egress"],
    collect: (gauge) => {
      gauge.reset();
      for (const { metadata, status } of egresses.list()) {
        const { namespace = "", name = "" } = metadata;
        const ready = conditionOf(status?.conditions, EGRESS_READY);
        gauge.set(
          { egress_namespace: namespace, egress: name },
          ready?.status === "True" ? 1 : 0,
        );
      }
    },
  });
  make.gauge("coil_controller_egress_gateway_lost_nodes", {
    help: "Nodes that have lost the gateway, as far as nodes reported it.",
    labels: ["egress_namespace", "egress", "gateway"],
    collect: (gauge) => {
      gauge.reset();
      for (const { metadata, status } of egresses.list()) {
        const { namespace = "", name = "" } = metadata;
        const gateways = status?.gateways ?? [];
        const lost = new Map(
          gatewayLosses(gateways).map((loss) => [loss.name, loss.nodes]),
        );
        for (const { name: gateway } of gateways) {
          gauge.set(
            { egress_namespace: namespace, egress: name, gateway },
            lost.get(gateway) ?? 0,
          );
        }
      }
    },
  });
}
