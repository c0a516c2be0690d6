import type { ServerCounters } from "../../../lib/egress/mod.ts";
import type { ConntrackCount } from "../../../lib/netlink/mod.ts";
import { FAMILIES } from "../../../lib/inet/mod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import type { Readings } from "./readings.ts";
import { MetricFactory, type Registry } from "../../../lib/telemetry/mod.ts";

/** Labels of what the gateway as a whole has. */
const POD_LABELS = ["namespace", "pod", "egress"] as const;

/** Names of IP protocols, from IANA's registry of protocol numbers. */
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map([
  [1, "icmp"],
  [6, "tcp"],
  [17, "udp"],
  [33, "dccp"],
  [58, "icmpv6"],
  [132, "sctp"],
  [136, "udplite"],
]);

type PodLabels = Record<typeof POD_LABELS[number], string>;

/** What the metrics of the kernel read when they are scraped. */
export interface ReadingSources {
  readonly identity: GatewayIdentity;
  readonly readings: Pick<
    Readings,
    "counters" | "flows" | "conntrack" | "nodes" | "readCheap"
  >;
  /** Established flows, while it drains. */
  readonly drainingFlows: () => number | undefined;
}

interface Context {
  readonly make: MetricFactory;
  readonly labels: PodLabels;
  readonly readings: ReadingSources["readings"];
}

/**
 * Registers the metrics of what the kernel counts; those of nf_conntrack and
 * nftables have upstream's names. What cannot be read is absent.
 */
export function observeReadings(
  registry: Registry,
  { identity, readings, drainingFlows }: ReadingSources,
): void {
  const { namespace, pod, egress } = identity;
  const labels = { namespace, pod, egress };
  const context: Context = {
    make: new MetricFactory(registry),
    labels,
    readings,
  };
  observeConntrack(context);
  observeRules(context);
  observePorts(context);
  gaugeOf(context, {
    name: "coil_egress_flows",
    help: "Established flows of clients",
    read: () => readings.flows?.established,
  });
  gaugeOf(context, {
    name: "coil_egress_probing_nodes",
    help: "Nodes that probed this pod within the last minute",
    read: () => readings.nodes,
  });
  gaugeOf(context, {
    name: "coil_egress_draining_flows",
    help: "Established flows of clients that this pod still drains",
    read: () => drainingFlows() ?? 0,
  });
}

/** A gauge of the whole gateway. */
function gaugeOf(
  { make, labels }: Context,
  { name, help, read }: {
    readonly name: string;
    readonly help: string;
    readonly read: () =>
      | number
      | undefined
      | Promise<number | undefined>;
  },
): void {
  make.gauge(name, {
    help,
    labels: POD_LABELS,
    collect: async (gauge) => {
      const value = await read();
      gauge.reset();
      if (value !== undefined) gauge.set(labels, value);
    },
  });
}

function observeConntrack(context: Context): void {
  const { readings } = context;
  const read = (of: keyof ConntrackCount) => async () => {
    await readings.readCheap();
    return readings.conntrack?.[of];
  };
  gaugeOf(context, {
    name: "coil_egress_nf_conntrack_entries_count",
    help: "Entries in the connection table",
    read: read("entries"),
  });
  gaugeOf(context, {
    name: "coil_egress_nf_conntrack_entries_limit",
    help: "Maximum number of entries in the connection table",
    read: read("max"),
  });
}

function observeRules({ make, labels, readings }: Context): void {
  const counter = (name: string, { help, of, unit }: {
    readonly help: string;
    readonly of: keyof ServerCounters;
    readonly unit: "packets" | "bytes";
  }) =>
    make.counter(name, {
      help,
      labels: [...POD_LABELS, "protocol"],
      collect: async (counter) => {
        await readings.readCheap();
        counter.reset();
        const counts = readings.counters?.[of];
        for (const protocol of FAMILIES) {
          const value = counts?.[protocol]?.[unit];
          if (value === undefined) continue;
          counter.inc({ ...labels, protocol }, Number(value));
        }
      },
    });
  for (const unit of ["packets", "bytes"] as const) {
    counter(`coil_egress_nftables_masqueraded_${unit}_total`, {
      help: `${unit} masqueraded; counts only the first packet of each flow`,
      of: "masqueraded",
      unit,
    });
    counter(`coil_egress_nftables_invalid_${unit}_total`, {
      help: `Dropped ${unit} that could not be masqueraded`,
      of: "invalid",
      unit,
    });
  }
  const unit = "packets";
  counter("coil_egress_foreign_fou_packets_total", {
    help: "Dropped tunnel datagrams from senders that are not clients",
    of: "foreignFou",
    unit,
  });
  counter("coil_egress_unsolicited_packets_total", {
    help: "Dropped packets from outside that no client requested",
    of: "unsolicited",
    unit,
  });
  counter("coil_egress_limited_packets_total", {
    help: "Dropped first packets of connections over a client's limit",
    of: "limited",
    unit,
  });
}

/** Of each destination, with all of the client's own ports together, the worst counts: ports below 1024 are few. */
function observePorts({ make, labels, readings }: Context): void {
  const gauge = (of: "used" | "limit", help: string) =>
    make.gauge(`coil_egress_snat_ports_${of}`, {
      help,
      labels: [...POD_LABELS, "protocol", "destination", "port"],
      collect: (gauge) => {
        gauge.reset();
        // The worst comes first, so it is set last.
        for (const use of (readings.flows?.ports ?? []).toReversed()) {
          const { port } = use;
          const protocol = PROTOCOL_NAMES.get(use.protocol) ??
            String(use.protocol);
          const destination = use.destination.toString();
          gauge.set({ ...labels, protocol, destination, port }, use[of]);
        }
      },
    });
  gauge("used", "Source ports taken towards the destinations with the most");
  gauge("limit", "Source ports there are towards the same destinations");
}
