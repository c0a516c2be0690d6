// Egress for pods that another plugin has made, with coild's originating-only
// mode: a plugin of the CNI project makes the network, and Coil's follows it.
import assert from "node:assert/strict";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import type { PluginConfig } from "./e2e_pods.ts";
import { egressTest, expectNoLeak } from "./e2e_stage.ts";
import { expectFailover } from "./failover_watch.ts";
import {
  OUTSIDE,
  OUTSIDE_NETWORKS,
  VM_FAMILIES,
  type VmFamily,
  type VmNode,
} from "./topology.ts";
import { askTcp, NetnsSockets, visit } from "./traffic.ts";

const EGRESS = "chained";
const SERVER_PORT = 8080;
const ASK = { timeoutMs: 20_000 };

/** One on each node. */
let clients: readonly Client[] = [];

/** Addresses that a node gives to pods of a namespace; gateways' are in the networks that the outside knows. */
function subnets(namespace: string, node: VmNode): readonly [string, string] {
  const number = namespace === GATEWAYS ? 65 : 64;
  const digit = node.name.slice(-1);
  return [`10.${number}.${digit}.0/24`, `fd${number}::${digit}00/120`];
}

function ptp(namespace: string, node: VmNode): PluginConfig {
  return {
    type: "ptp",
    ipam: {
      type: "host-local",
      dataDir: `/run/chained/${node.name}/${namespace}`,
      ranges: subnets(namespace, node).map((subnet) => [{ subnet }]),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  };
}

/** The namespace of pods that are on the nodes' own network. */
const UNDERLAY = "clients-ipv4";

/** Beside the nodes' own addresses there: upper halves, one part for each node. */
function macvlan(node: VmNode): PluginConfig {
  const digit = Number(node.name.slice(-1));
  const first = 100 + 20 * digit;
  return {
    type: "macvlan",
    master: "eth0",
    mode: "bridge",
    ipam: {
      type: "host-local",
      dataDir: `/run/chained/${node.name}/${UNDERLAY}`,
      ranges: [
        [{
          subnet: "172.31.0.0/24",
          rangeStart: `172.31.0.${first}`,
          gateway: "172.31.0.1",
        }],
        [{
          subnet: "fd31::/64",
          rangeStart: `fd31::${first}`,
          gateway: "fd31::1",
        }],
      ],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  };
}

const COORDINATOR: PluginConfig = {
  type: "coordinator",
  serviceCIDR: ["10.96.0.0/16", "fd96::/112"],
};

function ownAddress(client: Client, family: VmFamily): string {
  const own = client.pod.addresses.find((address) =>
    address.includes(":") === (family === "ipv6")
  );
  assert.ok(own);
  return own;
}

async function expectGateway(
  cluster: EgressCluster,
  client: Client,
): Promise<void> {
  const [gateway] = await cluster.gatewaysReady(EGRESS, 1);
  assert.ok(gateway);
  for (const family of VM_FAMILIES) {
    const source = await askTcp(client.sockets, OUTSIDE[family].near, ASK);
    assert.ok(gateway.pod.addresses.includes(source), source);
  }
}

egressTest("egress after another plugin, originating-only", {
  cluster: {
    coildArgs: [
      ...["--enable-ipam=false", "--enable-egress=true"],
      ...["--pod-table-id=0", "--protocol-id=2", "--enable-originating-only"],
    ],
    first: ({ namespace }, node) =>
      namespace === UNDERLAY
        ? [macvlan(node), COORDINATOR]
        : [ptp(namespace, node)],
  },
  setUp: async (cluster) => {
    const { topology } = cluster;
    for (const node of cluster.nodes) {
      for (const namespace of [GATEWAYS, "clients"]) {
        for (const subnet of subnets(namespace, node)) {
          await topology.route(subnet, node);
        }
      }
    }
    await cluster.createEgress(EGRESS, {
      destinations: VM_FAMILIES.flatMap((family) =>
        Object.values(OUTSIDE_NETWORKS[family])
      ),
      fouSourcePortAuto: true,
    });
    clients = await Promise.all(
      [0, 1].map((node) =>
        cluster.createClient({ name: `client${node}`, node, egresses: EGRESS })
      ),
    );
  },
  scenarios: {
    "W32 E2E-15: clients leave by the gateway, and answer who comes from outside by their own address":
      async (cluster) => {
        for (const client of clients) {
          await expectGateway(cluster, client);
          await expectNoLeak();
          using outside = new NetnsSockets(cluster.topology.outside);
          for (const family of VM_FAMILIES) {
            // All addresses there are destinations of the Egress.
            const hostname = ownAddress(client, family);
            const port = SERVER_PORT;
            await visit(outside, client.sockets, { hostname, port, ...ASK });
          }
          await expectNoLeak(client.pod.addresses);
          await expectGateway(cluster, client);
          await expectNoLeak();
        }
      },

    "W32: a client on the nodes' own network, behind macvlan and the coordinator, leaves by the gateway too":
      async (cluster) => {
        for (const [index, node] of cluster.nodes.entries()) {
          using client = await cluster.createClient({
            name: `underlay${index}`,
            namespace: UNDERLAY,
            node: index,
            egresses: EGRESS,
          });
          await expectGateway(cluster, client);
          await expectNoLeak();
          using host = new NetnsSockets(node.netns);
          using outside = new NetnsSockets(cluster.topology.outside);
          for (const family of VM_FAMILIES) {
            const hostname = ownAddress(client, family);
            const where = { hostname, port: SERVER_PORT, ...ASK };
            await visit(host, client.sockets, where);
            await visit(outside, client.sockets, where);
          }
          await expectNoLeak(client.pod.addresses);
          await cluster.removeClient(client);
        }
      },

    "a gateway that its client has chosen hangs: connections end, and go on by the other one":
      async (cluster) => {
        const egress = "direct";
        await cluster.createEgress(egress, {
          destinations: [OUTSIDE_NETWORKS.ipv4.near],
          replicas: 2,
          fouSourcePortAuto: true,
          gatewaySelection: "Direct",
        });
        using client = await cluster.createClient({
          name: "chooser",
          egresses: egress,
        });
        const [doomed] = await cluster.gatewaysReady(egress, 2);
        assert.ok(doomed);
        await expectFailover(cluster, { client, doomed });
        await cluster.removeClient(client);
      },

    "a client without its annotation leaves by its own address, and by the gateway with it; coild restarts in between":
      async (cluster) => {
        const [client] = clients;
        assert.ok(client);
        const { near } = OUTSIDE.ipv4;
        const own = ownAddress(client, "ipv4");
        await cluster.annotate(client, null);
        await eventually(
          "its own address outside",
          async () => await askTcp(client.sockets, near, ASK) === own,
        );
        await cluster.daemonOf(client.pod.node).kill9();
        await cluster.annotate(client, EGRESS);
        await cluster.startCoild(client.pod.node);
        // Each family is made by itself.
        await eventually("the gateway's addresses outside", async () => {
          await expectGateway(cluster, client);
          return true;
        });
        await expectGateway(cluster, client);
        await expectNoLeak(client.pod.addresses);
      },
  },
});
