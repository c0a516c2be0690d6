import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { EGRESS_WIDE_TABLE } from "../../lib/names/mod.ts";
import { EGRESSES } from "../../lib/api/mod.ts";
import { parseOutcomes } from "../../lib/connectivity/mod.ts";
import { inNetns, run } from "../lab/mod.ts";
import { spawnProcess } from "../lab/process.ts";
import { eventually } from "../lab/wait.ts";
import {
  type Client,
  type EgressCluster,
  executablePath,
} from "./e2e_cluster.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { ProbeKubelet } from "./e2e_probes.ts";
import { egressTest, expectNoLeak } from "./e2e_stage.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import {
  askTcp,
  askUdp,
  fetchBulk,
  NetnsSockets,
  TcpFlow,
  visit,
} from "./traffic.ts";

const FOU_PORT = 5555;

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
  return await inNetns(client.pod.sandbox.netns, "ping", ["-W30", ...args]);
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

/** Waits until a connection of the client's leaves by a gateway of this Egress. */
async function askedBy(
  cluster: EgressCluster,
  { sockets }: Client,
  { egress, address }: { readonly egress: string; readonly address: string },
): Promise<void> {
  await eventually(`${address} to be asked by ${egress}`, async () => {
    const source = await askTcp(sockets, address);
    const gateways = addressesOf(cluster, egress);
    assert.ok(gateways.includes(source), `${source} is none of ${gateways}`);
    return true;
  });
}

async function eventuallyEchoes(flows: readonly TcpFlow[]): Promise<void> {
  const before = flows.map((flow) => flow.report.answered);
  await eventually(
    "echoes",
    () => flows.every((f, i) => f.report.answered > (before[i] ?? 0) + 2),
  );
}

/** The node forgets UDP after a second, until what is returned is disposed. */
async function shortMemory(netns: string): Promise<AsyncDisposable> {
  const set = (values: readonly number[]) =>
    inNetns(netns, "sysctl", [
      ...["-qw", `net.netfilter.nf_conntrack_udp_timeout=${values[0]}`],
      `net.netfilter.nf_conntrack_udp_timeout_stream=${values[1]}`,
    ]);
  await set([1, 1]);
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      await set([30, 120]);
    },
  };
}

/** How many of the client's tunnelled flows the node knows. */
async function tunnelFlows(name: string, client: Client): Promise<number> {
  using netns = Netns.open(`/run/netns/${name}`);
  await using conntrack = ConntrackSocket.open({ netns });
  const flows = await listFlows(conntrack);
  return flows.filter((flow) =>
    flow.originalDestinationPort === FOU_PORT &&
    client.pod.addresses.includes(`${flow.originalSource}`)
  ).length;
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
    // The first, so that there are no flows of earlier to wait for.
    "connections that were idle go on after the nodes have forgotten them":
      async (cluster) => {
        const [node] = cluster.nodes;
        await using flows = new AsyncDisposableStack();
        const idle: TcpFlow[] = [];
        // The one Egress has automatic source ports, the other fixed ones.
        for (const { near, far } of Object.values(OUTSIDE)) {
          for (const address of [near, far]) {
            const flow = await TcpFlow.open(first.sockets, { address });
            idle.push(flows.use(flow));
          }
        }
        const echoes = () => eventuallyEchoes(idle);
        await echoes();
        await using _restored = await shortMemory(node.netns);
        {
          using pauses = new DisposableStack();
          for (const flow of idle) pauses.use(flow.pause());
          await eventually(
            "the node to forget the tunnels",
            async () => await tunnelFlows(node.netns, first) === 0,
            // A flow of earlier, of more than two seconds, is kept for two minutes.
            { intervalMs: 500, timeoutMs: 150_000 },
          );
        }
        await echoes();
        for (const { report } of idle) assert.equal(report.error, undefined);
      },

    "E2E-12: TCP, UDP and ICMP of both families, from both nodes, source port automatic and fixed":
      async (cluster) => {
        using second = await cluster.createClient({
          name: "second",
          node: 1,
          egresses: " far , near,near",
        });
        for (const client of [first, second]) {
          await expectGateway(cluster, client);
        }
        await cluster.removeClient(second);
      },

    "a probe outside says which gateway a client's question comes from, and the Egress' status has it":
      async (cluster) => {
        const { outside } = cluster.topology;
        const port = 8088;
        await using _server = await spawnProcess({
          id: "probe-outside",
          runDir: cluster.access.runDir,
          netns: outside,
          command: executablePath(),
          args: ["probe", "serve", `--port=${port}`],
        });
        const questions = VM_FAMILIES.map((family) => {
          const { near } = OUTSIDE[family];
          const host = family === "ipv6" ? `[${near}]` : near;
          return { kind: "get", url: `http://${host}:${port}/` };
        });
        // It is refused until the server listens.
        const seen = await eventually("answers", async () => {
          const output = await run("nsenter", [
            `--net=/run/netns/${first.pod.sandbox.netns}`,
            ...[executablePath(), "probe", "ask"],
          ], { stdin: JSON.stringify({ timeoutMs: 10_000, questions }) });
          const sources = parseOutcomes(output, questions.length)
            .flatMap((outcome) =>
              outcome.state === "answered" ? outcome.source ?? [] : []
            );
          return sources.length === questions.length && sources;
        });
        // It is written once a minute at most.
        await eventually(`${seen} in the Egress' status`, async () => {
          const { status } = await cluster.access.client.get(EGRESSES, {
            namespace: GATEWAYS,
            name: "near",
          });
          return seen.every((source) => status?.sources?.includes(source));
        });
      },

    "coil connectivity test --egress: pods of both nodes, Service, API server and Egress, all in one run":
      async (cluster) => {
        const { access } = cluster;
        const port = 8089;
        await using _server = await spawnProcess({
          id: "probe-target",
          runDir: access.runDir,
          netns: cluster.topology.outside,
          command: executablePath(),
          args: ["probe", "serve", `--port=${port}`],
        });
        await using kubelet = await ProbeKubelet.start(cluster);
        await access.admin.writeKubeconfig(access.admin.kubeconfig, {
          token: access.admin.adminToken,
        });
        const { code, stdout, stderr } = await new Deno.Command(
          executablePath(),
          {
            args: [
              ...["connectivity", "test", "--image=coil", "--host-port=0"],
              `--egress=${GATEWAYS}/near`,
              `--target=http://${OUTSIDE.ipv4.near}:${port}/`,
              "--output=json",
            ],
            env: {
              PATH: `${kubelet.binDir}:${Deno.env.get("PATH")}`,
              KUBECONFIG: access.admin.kubeconfig,
            },
          },
        ).output();
        const [out = "", err] = [stdout, stderr].map((bytes) =>
          new TextDecoder().decode(bytes)
        );
        assert.equal(code, 0, `${out}${err}`);
        const { checks } = JSON.parse(out) as {
          checks: { check: string; done: number; failed: number }[];
        };
        assert.deepEqual(
          checks.map(({ check, failed }) => `${check} ${failed}`),
          ["pod 0", "large 0", "service 0", "api-server 0", "egress 0"],
        );
        // One pod of each node.
        assert.equal(checks.at(-1)?.done, 2);
        assert.match(
          err ?? "",
          /\nRemoving Namespace coil-connectivity-test\n$/,
        );
      },

    "W40: the first packet after ADD arrives, though nobody knows the pod's status yet":
      async (cluster) => {
        using early = await cluster.createClient({
          name: "early",
          node: 1,
          egresses: "near",
          report: false,
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
            answerBytes,
            timeoutMs: 1_000,
          });
          return answer?.bytes === answerBytes;
        });
      }
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
        await dropped(gateway?.pod.sandbox.netns ?? "");
        await inNetns(netns, "ip", ["route", "change", near, "dev", "tocl"]);
        await assert.rejects(() => ping(stranger, "-c2", "-i0.2", "-W1", near));
        await dropped(first.pod.sandbox.netns);
        await cluster.removeClient(stranger);
      },

    "a gateway that is not ready: refused at once, and never sent another way":
      async (cluster) => {
        const [gateway] = cluster.gatewaysOf("far");
        gateway?.process.signal("SIGSTOP");
        const address = OUTSIDE.ipv4.far;
        await eventually("a refusal", async () => {
          const refusal = await askTcp(first.sockets, address, {
            timeoutMs: 2_000,
          }).then(() => undefined, (error: Error) => error);
          // SYN packets that nobody answers end by our own time-out.
          return refusal !== undefined && refusal.name !== "TimeoutError";
        });
        // The other Egress is none of that.
        await askTcp(first.sockets, OUTSIDE.ipv4.near);
        gateway?.process.signal("SIGCONT");
        // Each family has endpoints of its own.
        for (const { far } of Object.values(OUTSIDE)) {
          await askedBy(cluster, first, { egress: "far", address: far });
        }
      },

    "an annotation that comes, changes and goes while the pod lives": async (
      cluster,
    ) => {
      using late = await cluster.createClient({ name: "late", node: 1 });
      const address = OUTSIDE.ipv4.near;
      const [own = ""] = late.pod.addresses;
      assert.equal(await askTcp(late.sockets, address), own);
      await cluster.annotate(late, "near");
      await askedBy(cluster, late, { egress: "near", address });
      await cluster.annotate(late, "far");
      await eventually(
        "its own address again",
        async () => await askTcp(late.sockets, address) === own,
      );
      await askedBy(cluster, late, {
        egress: "far",
        address: OUTSIDE.ipv4.far,
      });
      await cluster.annotate(late, null);
      await eventually(
        "its own address outside, too",
        async () => await askTcp(late.sockets, OUTSIDE.ipv4.far) === own,
      );
      await cluster.removeClient(late);
      await expectNoLeak(late.pod.addresses);
    },

    "E2E-14: an Egress gets single addresses as destinations and automatic source ports; clients of others keep their tunnels":
      async (cluster) => {
        await cluster.createEgress("edited", {
          destinations: networks("near"),
        });
        using client = await cluster.createClient({
          name: "edited-client",
          egresses: "edited",
        });
        using other = await cluster.createClient({
          name: "others-client",
          egresses: "far",
        });
        const others = await tunnelsOf(other);
        const isFixed = (line: string) => line.includes("encap-sport 5555 ");
        const tunnels = await tunnelsOf(client);
        assert.ok(tunnels.length === 2 && tunnels.every(isFixed), `${tunnels}`);
        const single = VM_FAMILIES.map((family) => OUTSIDE[family].near);
        // Its gateway is another one then, whose source ports are automatic, too.
        await cluster.replaceGateways("edited", 1, {
          destinations: [`${single[0]}/32`, `${single[1]}/128`],
          fouSourcePortAuto: true,
        });
        await eventually("the new destinations and source ports", async () => {
          const now = await tunnelsOf(client);
          const isAutomatic = (line: string) =>
            line.includes("encap-sport auto ");
          assert.ok(now.length === 2 && now.every(isAutomatic), `${now}`);
          assert.deepEqual(await destinationsOf(client), single);
          return true;
        });
        assert.deepEqual(await tunnelsOf(other), others);
        for (const address of single) {
          await askedBy(cluster, client, { egress: "edited", address });
        }
        await cluster.removeClient(client);
        await cluster.removeClient(other);
      },

    "E2E-15: without originating-only, connections from an Egress' destinations to its clients fail":
      async (cluster) => {
        using outside = new NetnsSockets(cluster.topology.outside);
        for (const hostname of first.pod.addresses) {
          await assert.rejects(() =>
            visit(outside, first.sockets, {
              hostname,
              port: 8080,
              timeoutMs: 3_000,
            })
          );
        }
        await expectGateway(cluster, first);
      },

    "an Egress that loses a destination, and gets it back": async (cluster) => {
      using client = await cluster.createClient({
        name: "loser",
        egresses: "near",
      });
      const { near } = OUTSIDE.ipv4;
      const [own = "", own6 = ""] = client.pod.addresses;
      await cluster.patchEgress("near", {
        destinations: [OUTSIDE_NETWORKS.ipv6.near],
      });
      await eventually(
        "its own address",
        async () => await askTcp(client.sockets, near) === own,
      );
      assert.notEqual(await askTcp(client.sockets, OUTSIDE.ipv6.near), own6);
      await cluster.patchEgress("near", { destinations: networks("near") });
      await askedBy(cluster, client, { egress: "near", address: near });
      await cluster.removeClient(client);
      await expectNoLeak(client.pod.addresses);
    },
  },
});

/** Tunnels of a pod, each with its details. */
async function tunnelsOf({ pod }: Client): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const type of ["ipip", "ip6tnl"]) {
    const { netns } = pod.sandbox;
    const text = await inNetns(netns, "ip", [
      ...["-o", "-d", "link", "show", "type", type],
    ]);
    lines.push(...text.split("\n").filter((line) => line.includes(" fou ")));
  }
  return lines;
}

/** Destinations that a pod's table of public addresses leads to a gateway. */
async function destinationsOf({ pod }: Client): Promise<readonly string[]> {
  const { netns } = pod.sandbox;
  const lists = await Promise.all(["-4", "-6"].map(async (family) => {
    const table = `${EGRESS_WIDE_TABLE}`;
    const args = ["-j", family, "route", "show", "table", table];
    const text = await inNetns(netns, "ip", args).catch(() => "[]");
    return JSON.parse(text) as readonly { dst: string; dev?: string }[];
  }));
  // Each has an unreachable route of a worse metric, too.
  return lists.flat().filter(({ dev }) => dev?.startsWith("fou"))
    .map(({ dst }) => dst);
}

/** Waits until two datagrams of a stranger were dropped there. */
async function dropped(netns: string): Promise<void> {
  await eventually(
    "two dropped datagrams",
    async () => await foreign(netns) >= 2,
  );
}

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
