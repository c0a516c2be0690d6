// Clients and gateways of one family in a cluster of both.
import assert from "node:assert/strict";
import { inNetns } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { egressTest, expectNoLeak } from "./e2e_stage.ts";
import {
  OUTSIDE,
  OUTSIDE_NETWORKS,
  VM_FAMILIES,
  type VmFamily,
} from "./topology.ts";
import { askTcp, askUdp } from "./traffic.ts";

const DESTINATIONS = VM_FAMILIES.map((family) => OUTSIDE_NETWORKS[family].near);
const IPV4_GATEWAYS = "gateways-ipv4";

/** Longer than a refusal takes on a busy machine, shorter than a SYN is repeated for. */
const REFUSAL_MS = 20_000;

async function expectGateway(
  cluster: EgressCluster,
  client: Client,
  { egress, family }: { readonly egress: string; readonly family: VmFamily },
): Promise<void> {
  const gateways = cluster.gatewaysOf(egress)
    .flatMap(({ pod }) => [...pod.addresses]);
  const { near } = OUTSIDE[family];
  const seen = await askTcp(client.sockets, near);
  assert.ok(gateways.includes(seen), `${seen} is none of ${gateways}`);
  const answer = await askUdp(client.sockets, near);
  assert.ok(answer !== undefined && gateways.includes(answer.source));
  const { netns } = client.pod.sandbox;
  await inNetns(netns, "ping", ["-c1", "-w30", near]);
}

/** The connection ends by an error that the pod's own kernel gives. */
async function expectRefusal(client: Client, family: VmFamily): Promise<void> {
  const { near } = OUTSIDE[family];
  const error = await askTcp(client.sockets, near, { timeoutMs: REFUSAL_MS })
    .then((seen) => seen, (error: unknown) => error);
  assert.ok(error instanceof Error, `it came to outside as ${error}`);
  assert.match(error.message, /unreachable|No route to host|EHOSTUNREACH/i);
}

egressTest("egress of one family", {
  setUp: async (cluster) => {
    const spec = { destinations: DESTINATIONS, fouSourcePortAuto: true };
    await Promise.all([
      cluster.createEgress("both", spec),
      cluster.createEgress("single", spec, { namespace: IPV4_GATEWAYS }),
    ]);
  },
  scenarios: {
    ...Object.fromEntries(VM_FAMILIES.map((family) => [
      `a pod of ${family} alone is a client in that family`,
      async (cluster: EgressCluster) => {
        using client = await cluster.createClient({
          name: family,
          namespace: `clients-${family}`,
          node: 1,
          egresses: "both",
        });
        assert.equal(client.pod.addresses.length, 1);
        await expectGateway(cluster, client, { egress: "both", family });
        const other = family === "ipv4" ? "ipv6" : "ipv4";
        await expectRefusal(client, other);
        const rules = ["rule", "show", "priority", "1900"];
        const { netns } = client.pod.sandbox;
        const ip = other === "ipv6" ? "-6" : "-4";
        assert.equal(await inNetns(netns, "ip", [ip, ...rules]), "");
        await cluster.removeClient(client);
      },
    ])),

    "a pod of both families behind gateways of IPv4 alone: IPv6 is refused, and passes with failurePolicy Open":
      async (cluster) => {
        using client = await cluster.createClient({
          name: "dual",
          egresses: "single",
          egressNamespace: IPV4_GATEWAYS,
        });
        const ipv4 = { egress: "single", family: "ipv4" } as const;
        await expectGateway(cluster, client, ipv4);
        await expectRefusal(client, "ipv6");
        const { near } = OUTSIDE.ipv6;
        const namespace = { namespace: IPV4_GATEWAYS };
        await cluster.patchEgress(
          "single",
          { failurePolicy: "Open" },
          namespace,
        );
        await eventually("its own IPv6 address outside", async () => {
          const seen = await askTcp(client.sockets, near).catch(() => "");
          return client.pod.addresses.includes(seen);
        });
        await expectGateway(cluster, client, ipv4);
        await cluster.patchEgress(
          "single",
          { failurePolicy: "Closed" },
          namespace,
        );
        await eventually(
          "the refusal",
          () => expectRefusal(client, "ipv6").then(() => true),
        );
        // Packets from before, which may be under way, have been its own.
        await expectNoLeak(client.pod.addresses);
        await expectRefusal(client, "ipv6");
        await cluster.removeClient(client);
      },

    "a pod of IPv6 alone behind gateways of IPv4 alone is refused all": async (
      cluster,
    ) => {
      using client = await cluster.createClient({
        name: "apart",
        egresses: "single",
        node: 1,
        namespace: "clients-ipv6",
        egressNamespace: IPV4_GATEWAYS,
      });
      await expectRefusal(client, "ipv6");
      // What no Egress names goes its usual way.
      const { far } = OUTSIDE.ipv6;
      const [own = ""] = client.pod.addresses;
      assert.equal(await askTcp(client.sockets, far), own);
      await expectNoLeak(client.pod.addresses);
      await cluster.removeClient(client);
    },
  },
});
