import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import {
  configureLogging,
  createRegistry,
} from "../../../lib/telemetry/mod.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import { EgressMetrics } from "./metrics.ts";
import { observeLimits } from "./limit_metrics.ts";
import type { DataPlane } from "../base/ports.ts";
import { observeReadings } from "./reading_metrics.ts";
import { Readings } from "./readings.ts";

configureLogging({ write: () => {} });

const IDENTITY: GatewayIdentity = {
  namespace: "nat",
  egress: "internet",
  pod: "internet-0",
  addresses: {
    ipv4: Address.parse("10.1.9.9"),
    ipv6: Address.parse("fd01::9"),
  },
};
const GATEWAY = 'namespace="nat",pod="internet-0",egress="internet"';

const KERNEL: Omit<
  DataPlane,
  "setClients" | "changeClients" | typeof Symbol.dispose
> = {
  readCounters: () =>
    Promise.resolve({
      masqueraded: { ipv4: { packets: 5n, bytes: 500n } },
      invalid: { ipv4: { packets: 1n, bytes: 40n } },
      unsolicited: { ipv4: { packets: 2n, bytes: 80n } },
      limited: { ipv4: { packets: 7n, bytes: 420n } },
      foreignFou: {
        ipv4: { packets: 3n, bytes: 120n },
        ipv6: { packets: 0n, bytes: 0n },
      },
    }),
  readFlows: () =>
    Promise.resolve({
      flows: 5,
      established: 4,
      clients: [
        { address: Address.parse("10.1.1.2"), flows: 900 },
        { address: Address.parse("10.1.1.9"), flows: 3 },
      ],
      ports: [
        { protocol: 6, used: 300, limit: 424 },
        { protocol: 6, used: 400, limit: 64512 },
        { protocol: 17, used: 12, limit: 64512 },
        { protocol: 99, used: 1, limit: 1 },
      ].map((use) => ({
        ...use,
        destination: Address.parse("192.0.2.1"),
        port: 443,
        largest: Address.parse("10.1.1.2"),
      })),
    }),
  readConntrack: () => Promise.resolve({ entries: 17, max: 65536 }),
  readLimited: () => Promise.resolve([Address.parse("fd01::2")]),
  readNodes: () => Promise.resolve(12),
  limits: { flows: 20_000, flowsToOneAddress: 16_128, isSupported: true },
};

const CLIENTS: readonly ClientPod[] = [
  {
    namespace: "team",
    name: "a",
    uid: "u1",
    nodeName: "node1",
    addresses: [Address.parse("10.1.1.2"), Address.parse("fd01::2")],
  },
  { namespace: "team", name: "b", uid: "u2", nodeName: "node1", addresses: [] },
];

/** What is served, without the process's own and without comments. */
async function scrape(kernel: Partial<typeof KERNEL> = {}): Promise<string[]> {
  const registry = createRegistry({ defaults: false });
  const metrics = new EgressMetrics(registry);
  const readings = new Readings({
    kernel: { ...KERNEL, ...kernel },
    onFailure: (name) => metrics.readingFailed(name),
  });
  metrics.observe({
    identity: IDENTITY,
    pods: () => CLIENTS,
    announcedCount: () => 1,
    sharedCount: () => 2,
  });
  observeReadings(registry, {
    identity: IDENTITY,
    readings,
    drainingFlows: () => 6,
  });
  observeLimits(registry, {
    identity: IDENTITY,
    kernel: KERNEL,
    readings,
    pods: () => CLIENTS,
  });
  await readings.readFlows();
  return (await registry.metrics()).split("\n")
    .filter((line) => line !== "" && !line.startsWith("# HELP"));
}

Deno.test("the metrics of clients have upstream's names and labels", async () => {
  const lines = await scrape();
  for (
    const line of [
      "# TYPE coil_egress_client_pod_count gauge",
      'coil_egress_client_pod_count{namespace="nat",egress="internet"} 2',
      'coil_egress_client_pod_info{namespace="team",pod="a",pod_ip="10.1.1.2",interface="coil_fou4",egress="internet",egress_namespace="nat"} 1',
      'coil_egress_client_pod_info{namespace="team",pod="a",pod_ip="fd01::2",interface="coil_fou6",egress="internet",egress_namespace="nat"} 1',
      "coil_egress_announced_clients 1",
      "coil_egress_shared_addresses 2",
    ]
  ) {
    assert.ok(lines.includes(line), `no ${line} in\n${lines.join("\n")}`);
  }
});

Deno.test("the metrics of the kernel are there from the first scrape, totals as counters (W39)", async () => {
  const lines = await scrape();
  for (
    const line of [
      `coil_egress_nf_conntrack_entries_count{${GATEWAY}} 17`,
      `coil_egress_nf_conntrack_entries_limit{${GATEWAY}} 65536`,
      "# TYPE coil_egress_nftables_masqueraded_packets_total counter",
      `coil_egress_nftables_masqueraded_packets_total{${GATEWAY},protocol="ipv4"} 5`,
      `coil_egress_nftables_masqueraded_bytes_total{${GATEWAY},protocol="ipv4"} 500`,
      `coil_egress_nftables_invalid_packets_total{${GATEWAY},protocol="ipv4"} 1`,
      `coil_egress_nftables_invalid_bytes_total{${GATEWAY},protocol="ipv4"} 40`,
      `coil_egress_foreign_fou_packets_total{${GATEWAY},protocol="ipv4"} 3`,
      `coil_egress_foreign_fou_packets_total{${GATEWAY},protocol="ipv6"} 0`,
      `coil_egress_unsolicited_packets_total{${GATEWAY},protocol="ipv4"} 2`,
      `coil_egress_limited_packets_total{${GATEWAY},protocol="ipv4"} 7`,
      `coil_egress_client_flows_limit{${GATEWAY},scope="all"} 20000`,
      `coil_egress_client_flows_limit{${GATEWAY},scope="address"} 16128`,
      `coil_egress_client_flows{${GATEWAY},client="team/a",client_ip="10.1.1.2"} 900`,
      `coil_egress_client_flows{${GATEWAY},client="10.1.1.9",client_ip="10.1.1.9"} 3`,
      `coil_egress_client_limited{${GATEWAY},client="team/a",client_ip="fd01::2"} 1`,
      `coil_egress_flows{${GATEWAY}} 4`,
      `coil_egress_probing_nodes{${GATEWAY}} 12`,
      `coil_egress_draining_flows{${GATEWAY}} 6`,
      `coil_egress_snat_ports_used{${GATEWAY},protocol="tcp",destination="192.0.2.1",port="443"} 300`,
      `coil_egress_snat_ports_limit{${GATEWAY},protocol="tcp",destination="192.0.2.1",port="443"} 424`,
      `coil_egress_snat_ports_used{${GATEWAY},protocol="udp",destination="192.0.2.1",port="443"} 12`,
      `coil_egress_snat_ports_used{${GATEWAY},protocol="99",destination="192.0.2.1",port="443"} 1`,
    ]
  ) {
    assert.ok(lines.includes(line), `no ${line} in\n${lines.join("\n")}`);
  }
  const totals = lines.filter((line) => /^# TYPE .*_total /.test(line));
  assert.ok(totals.length > 5);
  assert.deepEqual(totals.filter((line) => !line.endsWith(" counter")), []);
});

Deno.test("a reading that fails takes none of the others with it, and is counted", async () => {
  const fail = () => Promise.reject(new Error("EPERM"));
  for (
    const [kernel, reading, gone, there] of [
      [{ readCounters: fail }, "counters", "masqueraded", "entries_count{"],
      [{ readConntrack: fail }, "conntrack", "entries_count{", "snat_ports"],
      [{ readFlows: fail }, "flows", "snat_ports_used{", "masqueraded"],
      [{ readNodes: fail }, "nodes", "probing_nodes{", "egress_flows{"],
      [{ readLimited: fail }, "limited", "client_limited{", "client_flows{"],
    ] as const
  ) {
    const lines = await scrape(kernel);
    const samples = lines.filter((line) => !line.startsWith("#"));
    const has = (text: string) => samples.some((line) => line.includes(text));
    assert.equal(has(gone), false, `${gone} without ${reading}`);
    assert.equal(has(there), true, `${there} without ${reading}`);
    assert.equal(has("client_pod_count"), true);
    const counted = new RegExp(
      `^coil_egress_reading_failures_total\\{reading="${reading}"\\} [1-9]`,
    );
    // It is served before the failure of the same scrape is counted.
    if (reading === "flows") assert.ok(samples.some((s) => counted.test(s)));
  }
});
