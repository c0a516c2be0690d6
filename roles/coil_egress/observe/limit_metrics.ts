import type { Address } from "../../../lib/inet/mod.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import { namesOf } from "./limited_clients.ts";
import type { DataPlane } from "../base/ports.ts";
import type { Readings } from "./readings.ts";
import { MetricFactory, type Registry } from "../../../lib/telemetry/mod.ts";

const POD_LABELS = ["namespace", "pod", "egress"] as const;
const CLIENT_LABELS = [...POD_LABELS, "client", "client_ip"] as const;

/** What the metrics of limits read when they are scraped. */
export interface LimitSources {
  readonly identity: GatewayIdentity;
  readonly kernel: Pick<DataPlane, "limits">;
  readonly readings: Pick<Readings, "flows" | "limited" | "readCheap">;
  readonly pods: () => Iterable<ClientPod>;
}

/** Registers the metrics of what each client may have, and has. */
export function observeLimits(
  registry: Registry,
  { identity, kernel, readings, pods }: LimitSources,
): void {
  const make = new MetricFactory(registry);
  const { namespace, pod, egress } = identity;
  const labels = { namespace, pod, egress };
  make.gauge("coil_egress_client_flows_limit", {
    help:
      "Maximum number of connections of each client address, in total or to one address; absent without limit",
    labels: [...POD_LABELS, "scope"],
    collect: (gauge) => {
      gauge.reset();
      const { flows, flowsToOneAddress } = kernel.limits;
      const set = (scope: string, value: number | undefined) => {
        if (value !== undefined) gauge.set({ ...labels, scope }, value);
      };
      set("all", flows);
      set("address", flowsToOneAddress);
    },
  });
  const ofClients = (
    name: string,
    { help, read }: {
      readonly help: string;
      readonly read: () => Promise<readonly (readonly [Address, number])[]>;
    },
  ) =>
    make.gauge(name, {
      help,
      labels: CLIENT_LABELS,
      collect: async (gauge) => {
        const values = await read();
        gauge.reset();
        const names = namesOf(pods(), values.map(([address]) => address));
        for (const [address, value] of values) {
          const client = names.get(address) ?? "";
          const client_ip = address.toString();
          gauge.set({ ...labels, client, client_ip }, value);
        }
      },
    });
  ofClients("coil_egress_client_flows", {
    help: "Connections of the clients with the most connections",
    read: () =>
      Promise.resolve(
        (readings.flows?.clients ?? [])
          .map(({ address, flows }) => [address, flows] as const),
      ),
  });
  ofClients("coil_egress_client_limited", {
    help:
      "1 for a client that had connections dropped within the last minutes because it reached its limit",
    read: async () => {
      await readings.readCheap();
      return (readings.limited ?? []).map((address) => [address, 1] as const);
    },
  });
}
