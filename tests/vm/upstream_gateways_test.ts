// Gateways of upstream's Coil v2 (Go) with our clients, and the reverse, as in a
// cluster that is being migrated.
import assert from "node:assert/strict";
import { inNetns } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { egressTest } from "./e2e_stage.ts";
import { tableOf } from "./nft_tables.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import { askTcp, askUdp, fetchBulk } from "./traffic.ts";

/** Each Egress leads to one network outside. */
const EGRESSES = { near: "automatic", far: "fixed" } as const;
type EgressName = keyof typeof EGRESSES;

async function expectServed(
  cluster: EgressCluster,
  client: Client,
  egress: EgressName,
): Promise<void> {
  const gateways = cluster.gatewaysOf(egress)
    .flatMap(({ pod }) => [...pod.addresses]);
  for (const family of VM_FAMILIES) {
    const address = OUTSIDE[family][egress];
    // Where a side is upstream's, gateways learn of a client from its status.
    const byTcp = await eventually(
      `${address} to answer`,
      () => askTcp(client.sockets, address, { timeoutMs: 2_000 }),
    );
    assert.ok(gateways.includes(byTcp), `${byTcp} is none of ${gateways}`);
    const byUdp = await askUdp(client.sockets, address, { answerBytes: 1_000 });
    assert.equal(byUdp?.source, byTcp);
    assert.equal(byUdp?.bytes, 1_000);
    const { netns } = client.pod.sandbox;
    await inNetns(netns, "ping", ["-w30", "-c1", "-s1300", address]);
    const bytes = 300_000;
    assert.equal(await fetchBulk(client.sockets, address, bytes), bytes);
  }
}

/** Waits until the client chooses a gateway itself, in both families. */
async function awaitChoice(client: Client): Promise<void> {
  await eventually("a gateway to choose", async () => {
    const table = await tableOf(client);
    const ready = /set ready_\S+ \{\s+type mark\s+elements/g;
    return table.match(ready)?.length === VM_FAMILIES.length;
  });
}

const DIRECTIONS = [
  ["clients of ours, gateways of upstream's", "gateways"],
  ["clients of upstream's, gateways of ours", "nodes"],
] as const;

for (const [title, peer] of DIRECTIONS) {
  const clients: Client[] = [];
  egressTest(`compatibility: ${title}`, {
    cluster: { peer },
    setUp: async (cluster) => {
      for (const egress of ["near", "far"] as const) {
        await cluster.createEgress(egress, {
          destinations: VM_FAMILIES.map((f) => OUTSIDE_NETWORKS[f][egress]),
          fouSourcePortAuto: EGRESSES[egress] === "automatic",
        });
      }
      for (const node of [0, 1]) {
        const name = `client${node}`;
        const egresses = "near,far";
        clients.push(await cluster.createClient({ name, node, egresses }));
      }
    },
    scenarios: {
      ...Object.fromEntries(
        (["near", "far"] as const).map((egress) => [
          `TCP, UDP, ping and large packets of both families from both nodes, source port ${
            EGRESSES[egress]
          }`,
          async (cluster: EgressCluster) => {
            for (const client of clients) {
              await expectServed(cluster, client, egress);
            }
          },
        ]),
      ),
      "the same with gatewaySelection: Direct, which upstream does not know":
        async (cluster) => {
          await cluster.patchEgress("near", { gatewaySelection: "Direct" });
          for (const client of clients) {
            if (peer === "gateways") await awaitChoice(client);
            await expectServed(cluster, client, "near");
          }
        },
    },
  });
}
