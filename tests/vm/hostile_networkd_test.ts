// A real systemd-networkd starts on a node whose pods are clients of an Egress:
// it deletes every rule that it does not know.
import assert from "node:assert/strict";
import { NETWORKD_ADVICE, runNetworkd } from "../hostile/networkd.ts";
import { inNetns } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { egressTest } from "./e2e_stage.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import { TcpFlow, UdpFlow } from "./traffic.ts";

const EGRESS = "nat";
/** One flow asks this often. */
const INTERVAL_MS = 100;
/** Of a flow, those of ten seconds. Measured: half a second's. The look of every 30 s would come after 15 s on average. */
const MAX_LOST = 100;

let client: Client;

/** The node of the client, as a place for networkd. */
function hostOf(cluster: EgressCluster) {
  const [{ netns }] = cluster.nodes;
  return {
    netns,
    run: (command: string, ...args: string[]) => inNetns(netns, command, args),
  };
}

/** How many rules coild has put back. */
async function repairs(cluster: EgressCluster): Promise<number> {
  const text = await hostOf(cluster).run(
    ...["curl", "-sf", "http://127.0.0.1:9384/metrics"] as const,
  );
  const [, count = 0] =
    /^coil_coild_repairs_total\{what="rule"\} (\d+)/m.exec(text) ?? [];
  return Number(count);
}

/** Runs while the client has flows outside; returns how many datagrams of one were lost, at most. */
async function lostDuring(run: () => Promise<void>): Promise<number> {
  await using stack = new AsyncDisposableStack();
  const flows: (TcpFlow | UdpFlow)[] = [];
  const datagrams: UdpFlow[] = [];
  for (const family of VM_FAMILIES) {
    const flow = { address: OUTSIDE[family].near, intervalMs: INTERVAL_MS };
    flows.push(stack.use(await TcpFlow.open(client.sockets, flow)));
    datagrams.push(stack.use(new UdpFlow(client.sockets, flow)));
  }
  flows.push(...datagrams);
  const answered = async () => {
    const before = flows.map(({ report }) => report.answered);
    await eventually(
      "answers on all flows",
      () =>
        flows.every(({ report }, i) => report.answered > (before[i] ?? 0) + 2),
    );
  };
  await answered();
  await run();
  await answered();
  for (const { report } of flows) {
    assert.equal(report.error, undefined);
    assert.equal(report.sources.size, 1);
  }
  const lost = datagrams.map((flow) => flow.countLost());
  return Math.max(...await Promise.all(lost));
}

async function networkdStarts(cluster: EgressCluster): Promise<void> {
  const before = await repairs(cluster);
  const lost = await lostDuring(async () => {
    await using _networkd = await runNetworkd(hostOf(cluster), "");
    await eventually(
      "the rules of both families to be put back",
      async () => await repairs(cluster) >= before + 2,
    );
  });
  // deno-lint-ignore no-console -- a figure
  console.log(`systemd-networkd: ${lost} datagrams lost`);
  assert.ok(lost < MAX_LOST, `${lost} datagrams lost`);
  for (const family of ["-4", "-6"]) {
    const rules = await hostOf(cluster).run("ip", family, "rule");
    assert.match(rules, /2000:.*116/);
  }
}

egressTest("clients of an Egress survive systemd-networkd on their node", {
  setUp: async (cluster) => {
    await cluster.createEgress(EGRESS, {
      destinations: VM_FAMILIES.map((f) => OUTSIDE_NETWORKS[f].near),
    });
    client = await cluster.createClient({ name: "client", egresses: EGRESS });
  },
  scenarios: {
    "it starts: the rules are back at once": networkdStarts,
    "it starts again: the same": networkdStarts,
    "with the settings that are advised it takes nothing": async (cluster) => {
      const before = await repairs(cluster);
      await lostDuring(async () => {
        await using _networkd = await runNetworkd(
          hostOf(cluster),
          NETWORKD_ADVICE,
        );
      });
      assert.equal(await repairs(cluster), before);
    },
  },
});
