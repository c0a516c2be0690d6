// What egress adds to coild's ADD, in the virtual machine: the whole way from
// the plugin's process to the tunnel, with real gateways.
import { fetchMetric } from "./metrics.ts";
import { handlingTimes } from "../daemon_log.ts";
import { EgressCluster } from "../../vm/e2e_cluster.ts";
import { CLIENTS } from "../../vm/e2e_objects.ts";
import type { VmNode } from "../../vm/topology.ts";
import type { Samples } from "./samples.ts";

/** The pods' kinds: the Egresses that each uses; gamma's clients choose their gateway. */
const KINDS = {
  plain: undefined,
  one: "alpha",
  direct: "gamma",
  two: "alpha,beta",
} as const;

const METRICS_PORT = 9384;
const PHASE = 'coil_coild_add_phase_seconds_sum{phase="egress"}';

/**
 * `add.<kind>`: coild's handling of an ADD without, with one and with two
 * gateways, and with one that the client chooses; `add.<kind>.egress`: of it, what egress took, the gateways' answers
 * to the announcement included.
 */
export async function addTimes(rounds: number): Promise<Samples> {
  await using cluster = await EgressCluster.start();
  const destinations = {
    alpha: ["203.0.113.0/24", "2001:db8:9::/64"],
    beta: ["198.51.100.0/24", "2001:db8:a::/64"],
    gamma: ["203.0.113.0/24", "2001:db8:9::/64"],
  };
  for (const [name, networks] of Object.entries(destinations)) {
    await cluster.createEgress(name, {
      destinations: networks,
      replicas: 1,
      gatewaySelection: name === "gamma" ? "Direct" : "Service",
    });
  }
  const [node] = cluster.nodes;
  const egress: Record<string, number[]> = {
    one: [],
    direct: [],
    two: [],
  };
  // The first two rounds pay for what is compiled and loaded.
  for (let round = -2; round < rounds; round++) {
    for (const [kind, egresses] of Object.entries(KINDS)) {
      const before = await phaseSeconds(node);
      const name = `${kind}${round < 0 ? "warm" : ""}-${Math.abs(round)}`;
      const client = await cluster.createClient({
        name,
        report: false,
        ...(egresses === undefined ? {} : { egresses }),
      });
      const after = await phaseSeconds(node);
      if (round >= 0) egress[kind]?.push((after - before) * 1000);
      await cluster.removeClient(client);
    }
  }
  const log = await cluster.daemonOf(node).logs();
  const samples: Record<string, Samples[string]> = {};
  for (const kind of Object.keys(KINDS)) {
    const times = handlingTimes(log, {
      method: "Add",
      namespace: CLIENTS,
      podPrefix: `${kind}-`,
    });
    samples[`add.${kind}`] = { unit: "ms", samples: times };
    const phase = egress[kind];
    if (phase === undefined) continue;
    samples[`add.${kind}.egress`] = { unit: "ms", samples: phase };
  }
  return samples;
}

/** What egress has taken so far. */
async function phaseSeconds(node: VmNode): Promise<number> {
  const address = node.addresses.ipv4;
  return await fetchMetric(`http://${address}:${METRICS_PORT}/metrics`, PHASE);
}
