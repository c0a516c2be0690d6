// A program in a client's pod damages its network, and coild mends it by itself.
import assert from "node:assert/strict";
import { conditionOf, EGRESSES } from "../../lib/api/mod.ts";
import { run } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { egressTest, expectNoLeak, type Scenario } from "./e2e_stage.ts";
import { OUTSIDE, VM_FAMILIES } from "./topology.ts";
import { askTcp } from "./traffic.ts";

/** coild looks this often. */
const INTERVAL = "2s";
const MENDED_MS = 90_000;

let clients: readonly Client[] = [];

/** Runs a shell script in a client's pod. */
function sidecar({ pod }: Client, script: string): Promise<string> {
  const { netns } = pod.sandbox;
  return run("ip", ["netns", "exec", netns, "sh", "-euc", script]);
}

/** All that makes a client of the pod, without what counts by itself. */
async function networkOf(client: Client): Promise<string> {
  const text = await sidecar(
    client,
    `for f in -4 -6; do ip $f rule; ip $f route show table 117 || true; ip $f route show table 118; done
     ip -o -d link show type ipip; ip -o -d link show type ip6tnl
     ip fou show; nft list table inet coil || true`,
  );
  return text.replaceAll(/^\d+: (?=fou|coil)/gm, "")
    .replaceAll(/packets \d+ bytes \d+/g, "")
    .replaceAll(/ permaddr \S+/g, "")
    .split("\n").map((line) => line.trim()).sort().join("\n");
}

/** Of each, what is left refuses or drops packets, so none leaves by a wrong way. */
const DAMAGES: Readonly<Record<string, string>> = {
  "deletes its routes into the tunnels":
    "ip route del default table 118 metric 0; ip -6 route del default table 118 metric 1024",
  "deletes the tunnels":
    "for l in $(ip -o link | grep -o 'fou[46]_[0-9a-f]*'); do ip link delete $l; done",
  "flushes its nft tables": "nft flush ruleset",
  "deletes the FoU ports": "ip fou del port 5555; ip fou del port 5555 -6",
};

function damageScenario(command: string): Scenario {
  return async (cluster) => {
    for (const client of clients) {
      const before = await networkOf(client);
      const mended = await timesMended(cluster);
      await sidecar(client, command);
      await eventually("the network to be mended", async () => {
        assert.ok(await timesMended(cluster) > mended);
        assert.equal(await networkOf(client), before);
        return true;
      }, { timeoutMs: MENDED_MS });
      await expectServed(client);
    }
  };
}

/** How often coild says that it found damage, which it may have mended before anybody else can look. */
async function timesMended(cluster: EgressCluster): Promise<number> {
  const log = await cluster.daemonOf(cluster.nodes[0]).logs();
  return log.split("Repairing a pod's egress").length - 1;
}

async function expectServed({ sockets }: Client): Promise<void> {
  for (const family of VM_FAMILIES) {
    const address = OUTSIDE[family].near;
    await eventually(
      `an answer of ${address}`,
      () => askTcp(sockets, address, { timeoutMs: 2_000 }),
      { timeoutMs: MENDED_MS },
    );
  }
}

egressTest("coild mends its clients by itself, after a program in the pod", {
  cluster: { coildArgs: [`--addressblock-gc-interval=${INTERVAL}`] },
  setUp: async (cluster) => {
    await cluster.createEgress("nat", {
      destinations: ["0.0.0.0/0", "::/0"],
      replicas: 1,
      fouSourcePortAuto: true,
    });
    clients = [
      await cluster.createClient({ name: "client", egresses: "nat" }),
    ];
    for (const client of clients) await expectServed(client);
  },
  scenarios: {
    ...Object.fromEntries(
      Object.entries(DAMAGES).map(([title, command]) => [
        title,
        damageScenario(command),
      ]),
    ),
    "a node masquerades its gateway's packets: the Egress says so, with the source that outside sees":
      async (cluster) => {
        const [gateway] = cluster.gatewaysOf("nat");
        assert.ok(gateway);
        const { node } = gateway.pod;
        const [own = ""] = gateway.pod.addresses;
        const { near } = OUTSIDE.ipv4;
        const [client] = clients;
        assert.ok(client);
        const nft = (script: string) =>
          run("ip", ["netns", "exec", node.netns, "nft", script]);
        await nft(
          `add table ip masq
           add chain ip masq post { type nat hook postrouting priority srcnat; }
           add rule ip masq post ip saddr ${own} ip daddr ${near} ip protocol tcp masquerade`,
        );
        const seenAs = await askTcp(client.sockets, near);
        assert.equal(seenAs, node.addresses.ipv4);
        await nft("delete table ip masq");
        await eventually("the condition of the Egress", async () => {
          const { status } = await cluster.access.client.get(EGRESSES, {
            namespace: GATEWAYS,
            name: "nat",
          });
          const translated = status?.gateways?.flatMap((g) =>
            g.translated ?? []
          );
          assert.deepEqual(translated, [{
            address: own,
            seenAs,
            destination: near,
          }]);
          const condition = conditionOf(
            status?.conditions,
            "SourcesTranslated",
          );
          assert.equal(condition?.status, "True");
          assert.ok(condition.message.includes(`leave the node as ${seenAs}`));
          return true;
        });
        await expectNoLeak([seenAs]);
      },
    "a gateway that is annotated as a client gets an Event, and goes on as it is":
      async (cluster) => {
        const [gateway] = cluster.gatewaysOf("nat");
        assert.ok(gateway);
        const { access } = cluster;
        const { namespace, name } = gateway.pod;
        const before = await run("ip", [
          ...["-n", gateway.pod.sandbox.netns, "rule"],
        ]);
        const annotations = { "egress.coil.cybozu.com/gateways": "nat" };
        const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
        await access.admin.request(
          "PATCH",
          path,
          { metadata: { annotations } },
          {
            contentType: "application/merge-patch+json",
          },
        );
        await eventually("the Event", async () => {
          const events = `/api/v1/namespaces/${namespace}/events`;
          const text = JSON.stringify(
            await access.admin.request("GET", events),
          );
          return text.includes("EgressRefused");
        }, { timeoutMs: MENDED_MS });
        const after = await run("ip", [
          ...["-n", gateway.pod.sandbox.netns, "rule"],
        ]);
        assert.equal(after, before);
        for (const client of clients) await expectServed(client);
      },
  },
});
