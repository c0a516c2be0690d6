import assert from "node:assert/strict";
import { inNetns } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { egressTest } from "./e2e_stage.ts";
import {
  forgetSources,
  OUTSIDE,
  OUTSIDE_NETWORKS,
  VM_FAMILIES,
} from "./topology.ts";
import { askTcp, askUdp, fetchBulk, TcpFlow } from "./traffic.ts";

const networks = (which: "near" | "far") =>
  VM_FAMILIES.map((family) => OUTSIDE_NETWORKS[family][which]);

/** Addresses of the Egress' gateways. */
function addressesOf(cluster: EgressCluster, egress: string): string[] {
  return cluster.gatewaysOf(egress).flatMap(({ pod }) => [...pod.addresses]);
}

async function ping(
  client: Client,
  ...args: readonly string[]
): Promise<string> {
  return await inNetns(client.pod.sandbox.netns, "ping", ["-W5", ...args]);
}

async function expectGateway(
  cluster: EgressCluster,
  client: Client,
): Promise<void> {
  const near = addressesOf(cluster, "near");
  const far = addressesOf(cluster, "far");
  for (const family of VM_FAMILIES) {
    const outside = OUTSIDE[family];
    const byTcp = await askTcp(client.sockets, outside.near);
    assert.ok(near.includes(byTcp), `${byTcp} is none of ${near}`);
    const byUdp = await askUdp(client.sockets, outside.far);
    assert.ok(byUdp !== undefined && far.includes(byUdp.source));
    await ping(client, "-c1", outside.near);
    await ping(client, "-c1", outside.far);
  }
}

let first: Client;

egressTest("egress end to end", {
  setUp: async (cluster) => {
    await Promise.all([
      cluster.createEgress("near", {
        destinations: networks("near"),
        replicas: 2,
        fouSourcePortAuto: true,
      }),
      cluster.createEgress("far", { destinations: networks("far") }),
    ]);
    first = await cluster.createClient({ name: "first", egresses: "near,far" });
  },
  scenarios: {
    "TCP, UDP and ICMP of both families, from both nodes, source port automatic and fixed":
      async (cluster) => {
        using second = await cluster.createClient({
          ...{ name: "second", node: 1, egresses: " far , near,near" },
        });
        for (const client of [first, second]) {
          await expectGateway(cluster, client);
        }
        await cluster.removeClient(second);
      },

    "W40: the first packet after ADD arrives, though nobody knows the pod's status yet":
      async (cluster) => {
        using early = await cluster.createClient({
          ...{ name: "early", node: 1, egresses: "near", report: false },
        });
        for (const family of VM_FAMILIES) {
          const answer = await askUdp(early.sockets, OUTSIDE[family].near);
          assert.ok(answer !== undefined, `nothing came back by ${family}`);
        }
        await cluster.removeClient(early);
      },

    "W41: packets too large for the tunnel": async () => {
      const { ipv4, ipv6 } = OUTSIDE;
      // 1500 less 28 bytes of outer IPv4 and UDP, less 48 of IPv6.
      await ping(first, "-c1", "-Mdo", `-s${1472 - 28}`, ipv4.near);
      await assert.rejects(
        () => ping(first, "-c1", "-Mdo", `-s${1472 - 27}`, ipv4.near),
      );
      await ping(first, "-c1", "-Mdo", `-s${1452 - 48}`, ipv6.near);
      for (const address of [ipv4.near, ipv6.near, ipv4.far, ipv6.far]) {
        assert.equal(await fetchBulk(first.sockets, address, 300_000), 300_000);
        // The first large answer is lost for the news that the path is narrow.
        const answerBytes = address.includes(":") ? 1440 : 1470;
        await eventually(`a large answer from ${address}`, async () => {
          const answer = await askUdp(first.sockets, address, {
            ...{ answerBytes, timeoutMs: 1_000 },
          });
          return answer?.bytes === answerBytes;
        });
      }
    },

    "a connection that was idle goes on after the nodes have forgotten it":
      async (cluster) => {
        const netns = cluster.nodes[0].netns;
        const names = ["udp_timeout", "udp_timeout_stream"].map((name) =>
          `net.netfilter.nf_conntrack_${name}`
        );
        const set = (values: readonly string[]) =>
          inNetns(netns, "sysctl", [
            ...["-qw", ...names.map((name, i) => `${name}=${values[i]}`)],
          ]);
        await using flow = await TcpFlow.open(first.sockets, {
          address: OUTSIDE.ipv4.near,
        });
        await eventually("echoes", () => flow.report.answered > 2);
        await set(["1", "1"]);
        await flow.idle(4_000);
        await set(["30", "120"]);
        const before = flow.report.answered;
        await eventually("echoes", () => flow.report.answered > before + 2);
        assert.equal(flow.report.error, undefined);
      },

    "W49: what is no client's own or no gateway's is dropped and counted":
      async (cluster) => {
        using stranger = await cluster.createClient({ name: "stranger" });
        const { netns } = stranger.pod.sandbox;
        const [own = ""] = stranger.pod.addresses;
        const [gateway] = cluster.gatewaysOf("near");
        const [there = ""] = gateway?.pod.addresses ?? [];
        const [victim = ""] = first.pod.addresses;
        await inNetns(netns, "ip", [
          "fou",
          "add",
          "port",
          "5555",
          "ipproto",
          "4",
        ]);
        for (const [name, remote] of [["togw", there], ["tocl", victim]]) {
          await inNetns(netns, "ip", [
            ...["link", "add", name ?? "", "type", "ipip", "local", own],
            ...["remote", remote ?? "", "ttl", "225", "encap", "fou"],
            ...["encap-sport", "5555", "encap-dport", "5555"],
          ]);
          await inNetns(netns, "ip", ["link", "set", name ?? "", "up"]);
        }
        const { near } = OUTSIDE.ipv4;
        await inNetns(netns, "ip", ["route", "add", near, "dev", "togw"]);
        await assert.rejects(() => ping(stranger, "-c2", "-i0.2", "-W1", near));
        assert.ok(await foreign(gateway?.pod.sandbox.netns ?? "") >= 2);
        await inNetns(netns, "ip", ["route", "change", near, "dev", "tocl"]);
        await assert.rejects(() => ping(stranger, "-c2", "-i0.2", "-W1", near));
        assert.ok(await foreign(first.pod.sandbox.netns) >= 2);
        await cluster.removeClient(stranger);
      },

    "a gateway that is not ready: refused at once, and never sent another way":
      async (cluster) => {
        const [gateway] = cluster.gatewaysOf("far");
        gateway?.process.signal("SIGSTOP");
        const address = OUTSIDE.ipv4.far;
        await eventually("a refusal", async () => {
          const started = performance.now();
          const refusal = await askTcp(first.sockets, address, {
            timeoutMs: 2_000,
          }).then(() => undefined, (error: Error) => error);
          // SYN packets that nobody answers end by our own time-out.
          return refusal !== undefined && refusal.name !== "TimeoutError" &&
            performance.now() - started < 1_500;
        }, { timeoutMs: 60_000 });
        // The other Egress is none of that.
        await askTcp(first.sockets, OUTSIDE.ipv4.near);
        gateway?.process.signal("SIGCONT");
        await eventually("an answer", async () => {
          return await askTcp(first.sockets, address) !== "";
        }, { timeoutMs: 60_000 });
      },

    "an annotation that comes, changes and goes while the pod lives": async (
      cluster,
    ) => {
      using late = await cluster.createClient({ name: "late", node: 1 });
      const address = OUTSIDE.ipv4.near;
      const [own = ""] = late.pod.addresses;
      assert.equal(await askTcp(late.sockets, address), own);
      await cluster.annotate(late, "near");
      const near = addressesOf(cluster, "near");
      await eventually(
        "a gateway's address",
        async () => near.includes(await askTcp(late.sockets, address)),
      );
      await forgetSources();
      await cluster.annotate(late, "far");
      await eventually(
        "its own address again",
        async () => await askTcp(late.sockets, address) === own,
      );
      await askTcp(late.sockets, OUTSIDE.ipv4.far);
      await cluster.annotate(late, null);
      await eventually(
        "its own address outside, too",
        async () => await askTcp(late.sockets, OUTSIDE.ipv4.far) === own,
      );
      await cluster.removeClient(late);
      await forgetSources();
    },

    "an Egress that loses a destination, and gets it back": async (cluster) => {
      using client = await cluster.createClient({
        ...{ name: "loser", egresses: "near" },
      });
      const { near } = OUTSIDE.ipv4;
      const [own = ""] = client.pod.addresses;
      await cluster.patchEgress("near", {
        destinations: [OUTSIDE_NETWORKS.ipv6.near],
      });
      await eventually(
        "its own address",
        async () => await askTcp(client.sockets, near) === own,
      );
      assert.notEqual(await askTcp(client.sockets, OUTSIDE.ipv6.near), own);
      await cluster.patchEgress("near", { destinations: networks("near") });
      await eventually(
        "a gateway's address",
        async () => await askTcp(client.sockets, near) !== own,
      );
      await cluster.removeClient(client);
      await forgetSources();
    },
  },
});

/** Datagrams that were no peer's, by the counter of this namespace's table. */
async function foreign(netns: string): Promise<number> {
  const text = await inNetns(netns, "nft", ["-j", "list", "counters"]);
  const { nftables } = JSON.parse(text) as {
    nftables: readonly { counter?: { name: string; packets: number } }[];
  };
  return nftables.reduce(
    (sum, { counter }) =>
      sum + (counter?.name.startsWith("foreign") ? counter.packets : 0),
    0,
  );
}
