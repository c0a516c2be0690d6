// Clients that choose their gateways themselves (gatewaySelection: Direct).
import assert from "node:assert/strict";
import { sleep, TaskGroup } from "../../lib/async/mod.ts";
import { EGRESSES } from "../../lib/api/mod.ts";
import type { Family } from "../../lib/inet/mod.ts";
import { ENDPOINT_SLICES, EVENTS, PODS } from "../../lib/kube/mod.ts";
import { inNetns } from "../lab/mod.ts";
import { atRest, eventually } from "../lab/wait.ts";
import { scrapeCoild } from "./coild_metrics.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { egressTest } from "./e2e_stage.ts";
import { loseByChance } from "./lossy_gateway.ts";
import { addTable, type NftScript, tableOf } from "./nft_tables.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import { askTcp, type FlowReport, TcpFlow, UdpFlow } from "./traffic.ts";

const EGRESS = "direct";
/** That all of so many connections take the same of two gateways by chance is as good as impossible. */
const MANY = 40;

/** What keeps a gateway from unpacking. */
const BROKEN = {
  name: "broken",
  text: `table inet broken {
  chain incoming {
    type filter hook prerouting priority -400
    udp dport 5555 drop
  }
}`,
};

/** What keeps a node's pods from the addresses of Services. */
function withoutProxy({ proxy }: EgressCluster): NftScript {
  const rules = proxy.translations.map(({ family, address }) =>
    `${family === "ipv6" ? "ip6" : "ip"} daddr ${address} drop`
  );
  assert.ok(rules.length > 0, "there is a Service");
  return {
    name: "noproxy",
    text: `table inet noproxy {
  chain incoming {
    type filter hook prerouting priority -400
    ${rules.join("\n    ")}
  }
}`,
  };
}

/** A gateway that flaps is lost more than once in this time. */
const LOSSY_MS = 20_000;

let client: Client;

/** The gateways of new connections, of these families, by the pods' names. */
async function gatewaysOfNew(
  cluster: EgressCluster,
  count: number,
  families: readonly Family[] = VM_FAMILIES,
): Promise<readonly string[]> {
  const used = new Set<string>();
  for (const family of families) {
    for (let i = 0; i < count; i++) {
      const source = await askTcp(client.sockets, OUTSIDE[family].near);
      used.add(gatewayOf(cluster, source).pod.name);
    }
  }
  return [...used].sort();
}

function gatewayOf(cluster: EgressCluster, source: string): Gateway {
  const gateway = cluster.gatewaysOf(EGRESS).find(({ pod }) =>
    pod.addresses.includes(source)
  );
  assert.ok(gateway, `${source} is no gateway's`);
  return gateway;
}

/** For how many families a client's table has gateways that new connections choose. */
function choicesIn(table: string): number {
  const filled = /set ready_\S+ \{\s+type mark\s+elements/g;
  return table.match(filled)?.length ?? 0;
}

/** The links of a client, each with its number, and its nft table. */
async function networkOf(client: Client): Promise<string> {
  const { netns } = client.pod.sandbox;
  const links = await inNetns(netns, "ip", ["-o", "link", "show"]);
  return `${links}${await tableOf(client)}`;
}

/** What a coild that has just started would change, it has changed when this returns: it has looked at each pod. */
async function coildAtRest(cluster: EgressCluster): Promise<void> {
  await atRest("coild's looks after its start", async () => {
    const count = await updates(cluster);
    assert.ok(count > 0, "none");
    return count;
  });
}

/** Waits until new connections of each family go to these gateways, to all of them: each family finds a gateway again by itself. */
async function awaitGateways(
  cluster: EgressCluster,
  ...gateways: readonly Gateway[]
): Promise<void> {
  const names = gateways.map(({ pod }) => pod.name).sort();
  for (const family of VM_FAMILIES) {
    const what = `new connections of ${family} by ${names.join()}`;
    await eventually(what, async () => {
      const used = await gatewaysOfNew(cluster, MANY / 4, [family]);
      return used.join() === names.join();
    });
  }
}

/** Many new connections of each family, each of which succeeds, go to all of these gateways. */
async function expectSpread(
  cluster: EgressCluster,
  gateways: readonly Gateway[],
): Promise<void> {
  const names = gateways.map(({ pod }) => pod.name).sort();
  for (const family of VM_FAMILIES) {
    const used = await gatewaysOfNew(cluster, MANY, [family]);
    assert.deepEqual(used, names, family);
  }
}

interface Flows extends AsyncDisposable {
  readonly flows: readonly (TcpFlow | UdpFlow)[];
}

/** Connections and exchanges of datagrams through each of the gateways, of both families. */
async function flowsThroughAll(cluster: EgressCluster): Promise<Flows> {
  await using stack = new AsyncDisposableStack();
  const flows: (TcpFlow | UdpFlow)[] = [];
  for (const family of VM_FAMILIES) {
    const options = { address: OUTSIDE[family].near, intervalMs: 100 };
    const missing = new Set(cluster.gatewaysOf(EGRESS).map((g) => g.pod.name));
    while (missing.size > 0) {
      const flow = stack.use(await TcpFlow.open(client.sockets, options));
      const [source = ""] = flow.report.sources;
      if (missing.delete(gatewayOf(cluster, source).pod.name)) flows.push(flow);
      else await flow[Symbol.asyncDispose]();
    }
    for (let i = 0; i < 4; i++) {
      flows.push(stack.use(new UdpFlow(client.sockets, options)));
    }
  }
  await answering(flows);
  const kept = stack.move();
  return { flows, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Waits until each flow has had some more answers. */
async function answering(flows: Flows["flows"]): Promise<void> {
  const before = flows.map(({ report }) => report.answered);
  await eventually(
    "answers on all flows",
    () =>
      flows.every(({ report }, i) => report.answered > (before[i] ?? 0) + 3),
  );
}

/** No flow broke or changed its gateway, and none lost more than two datagrams. */
async function expectUntouched(
  { flows }: Pick<Flows, "flows">,
): Promise<void> {
  await answering(flows);
  for (const flow of flows) {
    const lost = flow instanceof UdpFlow ? await flow.countLost() : 0;
    const { report } = flow;
    const text = `${textOf(report)}, lost ${lost}`;
    assert.equal(report.error, undefined, text);
    assert.equal(report.sources.size, 1, text);
    assert.ok(lost <= 2, text);
  }
}

/** A connection is ended, though its program only waits: a moment after new ones use another gateway. */
async function expectAborted(flow: TcpFlow): Promise<void> {
  await eventually(
    "the end of a connection",
    () => flow.report.error !== undefined,
  );
  assert.match(flow.report.error ?? "", /os error 103/, textOf(flow.report));
}

/** Connections are ended; datagrams go by the other gateway. */
async function expectEnded(
  flows: Flows["flows"],
  other: Gateway,
): Promise<void> {
  for (const flow of flows) {
    if (flow instanceof TcpFlow) {
      await expectAborted(flow);
      continue;
    }
    await eventually(
      "answers by the other gateway",
      () =>
        [...flow.report.sources].some((s) => other.pod.addresses.includes(s)),
    );
  }
}

/** The Egress names the lost gateway, and an Event of it says what was done; coild's metrics count it. */
async function expectShown(
  cluster: EgressCluster,
  { pod }: Gateway,
): Promise<void> {
  await eventually(
    "the Egress to name the gateway",
    async () => (await lostGateways(cluster)).join() === pod.name,
  );
  await eventually("its Event", async () => {
    const { items } = await cluster.access.client.list(EVENTS, {
      namespace: GATEWAYS,
      fieldSelector: "reason=GatewayLost",
    });
    const [node] = cluster.nodes;
    const beginning =
      `${pod.name} on node ${pod.node.name} does not answer node ${node.name}: `;
    const messages = items.map(({ message = "" }) => message);
    if (messages.some((text) => text.startsWith(beginning))) return true;
    throw new Error(`"${beginning}": there is ${JSON.stringify(messages)}`);
  });
  await eventually("coild's metrics to count it", async () => {
    const metrics = await scrapeCoild(cluster);
    const of = (name: string) =>
      Number(
        new RegExp(`^coil_coild_egress_${name} (.*)$`, "m").exec(metrics)?.[1],
      );
    // Each address is probed.
    assert.equal(of('gateways\\{state="lost"\\}'), VM_FAMILIES.length);
    assert.ok(of("gateway_loss_seconds_count") >= VM_FAMILIES.length);
    assert.ok(of("client_switch_seconds_count") >= 1);
    assert.ok(of('connections_ended_total\\{how="aborted"\\}') >= 1);
    return true;
  });
}

async function lostGateways(
  { access }: EgressCluster,
): Promise<readonly string[]> {
  const target = { namespace: GATEWAYS, name: EGRESS };
  const egress = await access.client.get(EGRESSES, target);
  return egress.status?.lostGateways ?? [];
}

/** How often coild has looked at clients. */
async function updates(cluster: EgressCluster): Promise<number> {
  const metrics = await scrapeCoild(cluster);
  const [, count] =
    /^coil_coild_egress_updates_total\{result="ok"\} (\d+)$/m.exec(metrics) ??
      [];
  return Number(count);
}

/** How many of coild's reports of lost gateways were taken. */
async function lossReports(cluster: EgressCluster): Promise<number> {
  const metrics = await scrapeCoild(cluster);
  const [, count] =
    /^coil_coild_egress_loss_reports_total\{result="accepted"\} (\d+)$/m.exec(
      metrics,
    ) ?? [];
  return Number(count ?? 0);
}

async function slicesOfIpv6({ access }: EgressCluster): Promise<string[]> {
  const { items } = await access.client.list(ENDPOINT_SLICES, {
    namespace: GATEWAYS,
    labelSelector: `kubernetes.io/service-name=${EGRESS}`,
  });
  return items.filter(({ addressType }) => addressType === "IPv6")
    .map(({ metadata }) => metadata?.name ?? "");
}

/** Deletes them again and again: the controller creates them a second later (endpointSliceChangeMinSyncDelay). */
function withoutSlicesOfIpv6(cluster: EgressCluster): TaskGroup {
  const group = new TaskGroup();
  group.run("slices", async (signal) => {
    while (!signal.aborted) {
      for (const name of await slicesOfIpv6(cluster)) {
        const target = { namespace: GATEWAYS, name };
        // The controller may have deleted it first.
        await cluster.access.client.delete(ENDPOINT_SLICES, target).catch(
          (error) => {
            if (!error.isNotFound) throw error;
          },
        );
      }
      await sleep(50, { signal });
    }
  });
  return group;
}

function textOf({ sent, answered, sources, error }: FlowReport): string {
  return `sent ${sent}, answered ${answered}, from ${[
    ...sources,
  ]}, error ${error}`;
}

egressTest("egress by gateways that the client chooses", {
  setUp: async (cluster) => {
    await cluster.createEgress(EGRESS, {
      destinations: VM_FAMILIES.map((f) => OUTSIDE_NETWORKS[f].near),
      replicas: 2,
      fouSourcePortAuto: true,
      gatewaySelection: "Direct",
    });
    client = await cluster.createClient({ name: "client", egresses: EGRESS });
  },
  scenarios: {
    "new connections are spread over the gateways": async (cluster) => {
      const gateways = await cluster.gatewaysReady(EGRESS, 2);
      await awaitGateways(cluster, ...gateways);
      // The Service would send a client to one gateway only: affinity.
      await expectSpread(cluster, gateways);
    },

    "the Service leads nowhere, as without a proxy: new connections are spread all the same":
      async (cluster) => {
        const gateways = await cluster.gatewaysReady(EGRESS, 2);
        await awaitGateways(cluster, ...gateways);
        const [{ netns }] = cluster.nodes;
        const remove = await addTable(netns, withoutProxy(cluster));
        try {
          await expectSpread(cluster, gateways);
        } finally {
          await remove();
        }
      },

    "a gateway hangs: what its kernel forwards goes on, new connections use the other":
      async (cluster) => {
        const [hung, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(hung && other);
        await using flows = await flowsThroughAll(cluster);
        hung.process.signal("SIGSTOP");
        try {
          await awaitGateways(cluster, other);
          await expectUntouched(flows);
        } finally {
          hung.process.signal("SIGCONT");
        }
        await awaitGateways(cluster, hung, other);
        await expectUntouched(flows);
      },

    "a gateway's process is killed and starts again: connections through it go on":
      async (cluster) => {
        const [killed, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(killed && other);
        await using flows = await flowsThroughAll(cluster);
        const { restarts } = killed;
        await killed.process.kill9();
        await eventually(
          "the gateway to be back",
          () => killed.restarts > restarts && killed.ready,
        );
        await expectUntouched(flows);
        await awaitGateways(cluster, killed, other);
      },

    "coild is killed and comes back: nothing is changed": async (cluster) => {
      await awaitGateways(cluster, ...await cluster.gatewaysReady(EGRESS, 2));
      // The gateway that came back in the scenario before may go and come for coild only now.
      const before = await atRest("the client", () => networkOf(client));
      assert.equal(choicesIn(before), VM_FAMILIES.length, before);
      await using flows = await flowsThroughAll(cluster);
      const [node] = cluster.nodes;
      await cluster.daemonOf(node).kill9();
      await expectUntouched(flows);
      await cluster.startCoild(node);
      await coildAtRest(cluster);
      await expectUntouched(flows);
      assert.equal(await networkOf(client), before);
    },

    "a gateway is drained: its connections go on, new ones use others": async (
      cluster,
    ) => {
      const [drained, other] = await cluster.gatewaysReady(EGRESS, 2);
      assert.ok(drained && other);
      await using flows = await flowsThroughAll(cluster);
      const { namespace, name } = drained.pod;
      await cluster.access.client.delete(PODS, { namespace, name });
      await eventually(
        "new connections by others",
        async () => !(await gatewaysOfNew(cluster, MANY / 4)).includes(name),
      );
      await expectUntouched(flows);
      assert.ok(drained.process.isRunning, "it has not waited for its flows");
      await flows[Symbol.asyncDispose]();
      await eventually(
        "the gateway to end",
        () => !cluster.kubelet.gateways().includes(drained),
      );
      await cluster.gatewaysReady(EGRESS, 2);
    },

    "a gateway disappears: connections through it end, new ones use others, flows through others lose nothing":
      async (cluster) => {
        const [lost, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(lost && other);
        await using all = await flowsThroughAll(cluster);
        const isOfOther = ({ report }: TcpFlow | UdpFlow) =>
          [...report.sources].every((s) => other.pod.addresses.includes(s));
        const flows = all.flows.filter(isOfOther);
        assert.ok(flows.length >= 2, "each family has one through the other");
        const { namespace, name } = lost.pod;
        const target = { namespace, name, gracePeriodSeconds: 0 };
        await cluster.access.client.delete(PODS, target);
        await eventually("new connections by others", async () => {
          try {
            return (await gatewaysOfNew(cluster, 2)).length > 0;
          } catch {
            return false; // by the lost one
          }
        });
        await expectUntouched({ flows });
        for (const flow of all.flows) {
          if (isOfOther(flow) || !(flow instanceof TcpFlow)) continue;
          await expectAborted(flow);
        }
        await cluster.gatewaysReady(EGRESS, 2);
      },

    "a gateway disappears while coild does not run: connections through it end when it starts":
      async (cluster) => {
        const gateways = await cluster.gatewaysReady(EGRESS, 2);
        const [node] = cluster.nodes;
        // Without coild no pod of its node ends, or starts.
        const gone = gateways.find(({ pod }) => pod.node !== node);
        assert.ok(gone);
        await using all = await flowsThroughAll(cluster);
        const isOfGone = ({ report }: TcpFlow | UdpFlow) =>
          [...report.sources].some((s) => gone.pod.addresses.includes(s));
        {
          using _cordon = cluster.kubelet.cordon();
          await cluster.daemonOf(node).kill9();
          const { namespace, name } = gone.pod;
          const target = { namespace, name, gracePeriodSeconds: 0 };
          await cluster.access.client.delete(PODS, target);
          await eventually("the EndpointSlices to lack the gateway", () => {
            const usable = cluster.proxy.translations.flatMap((each) =>
              each.usable
            );
            return !gone.pod.addresses.some((each) => usable.includes(each));
          });
          await cluster.startCoild(node);
        }
        for (const flow of all.flows) {
          if (!isOfGone(flow) || !(flow instanceof TcpFlow)) continue;
          await expectAborted(flow);
        }
        await expectUntouched({
          flows: all.flows.filter((flow) => !isOfGone(flow)),
        });
        await cluster.gatewaysReady(EGRESS, 2);
      },

    "a gateway forwards nothing, and answers its kubelet: connections through it end, new ones use the other":
      async (cluster) => {
        const [lost, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(lost && other);
        await using all = await flowsThroughAll(cluster);
        const isOfLost = ({ report }: TcpFlow | UdpFlow) =>
          [...report.sources].some((s) => lost.pod.addresses.includes(s));
        const ofLost = all.flows.filter(isOfLost);
        const flows = all.flows.filter((flow) => !isOfLost(flow));
        const remove = await addTable(lost.pod.sandbox.netns, BROKEN);
        try {
          await eventually("new connections by the other", async () => {
            const used = await gatewaysOfNew(cluster, MANY / 4)
              .catch(() => []); // by the lost one
            return used.join() === other.pod.name;
          });
          assert.ok(lost.ready, "its kubelet has not noticed");
          await expectEnded(ofLost, other);
          await expectUntouched({ flows });
          await expectShown(cluster, lost);
        } finally {
          await remove();
        }
        await awaitGateways(cluster, lost, other);
        await expectUntouched({ flows });
        await eventually(
          "the Egress to name no gateway",
          async () => (await lostGateways(cluster)).length === 0,
        );
      },

    "30 % of a gateway's packets are lost, each way: the gateway is not, and connections through it go on":
      async (cluster) => {
        const [lossy, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(lossy && other);
        await awaitGateways(cluster, lossy, other);
        await using all = await flowsThroughAll(cluster);
        const connections = all.flows.filter((each) => each instanceof TcpFlow);
        const remove = await loseByChance(lossy);
        try {
          const endMs = performance.now() + LOSSY_MS;
          while (performance.now() < endMs) {
            const table = await tableOf(client);
            const lost = /set lost_\S+ \{\s+type mark\s+elements/;
            assert.ok(!lost.test(table), table);
          }
        } finally {
          await remove();
        }
        await answering(connections);
        for (const { report } of connections) {
          assert.equal(report.error, undefined, textOf(report));
        }
      },

    "coild is restarted while a gateway is lost, which its kubelet has not noticed: no connection uses it":
      async (cluster) => {
        const [lost, other] = await cluster.gatewaysReady(EGRESS, 2);
        assert.ok(lost && other);
        await awaitGateways(cluster, lost, other);
        const remove = await addTable(lost.pod.sandbox.netns, BROKEN);
        try {
          await eventually("new connections by the other", async () => {
            const used = await gatewaysOfNew(cluster, MANY / 4)
              .catch(() => []); // by the lost one
            return used.join() === other.pod.name;
          });
          await using flow = await TcpFlow.open(client.sockets, {
            address: OUTSIDE.ipv4.near,
          });
          const [node] = cluster.nodes;
          await cluster.daemonOf(node).kill9();
          await cluster.startCoild(node);
          for (let i = 0; i < 3; i++) {
            assert.deepEqual(await gatewaysOfNew(cluster, MANY / 4), [
              other.pod.name,
            ]);
            await answering([flow]);
          }
          await eventually(
            "the new coild to report the loss",
            async () => await lossReports(cluster) > 0,
          );
          await eventually(
            "the Egress to name the gateway",
            async () => (await lostGateways(cluster)).join() === lost.pod.name,
          );
          assert.ok(lost.ready, "its kubelet has not noticed");
          await expectUntouched({ flows: [flow] });
        } finally {
          await remove();
        }
        await awaitGateways(cluster, lost, other);
      },

    "the EndpointSlices of IPv6 are away for seconds, coild restarted in between: every connection goes on, and new ones use the same gateways":
      async (cluster) => {
        const gateways = await cluster.gatewaysReady(EGRESS, 2);
        await awaitGateways(cluster, ...gateways);
        await using flows = await flowsThroughAll(cluster);
        const before = await atRest("the table", () => tableOf(client));
        assert.equal(choicesIn(before), VM_FAMILIES.length, before);
        const names = gateways.map(({ pod }) => pod.name).sort();
        const expectAsBefore = async () => {
          assert.deepEqual(await gatewaysOfNew(cluster, MANY / 2), names);
          await expectUntouched(flows);
          assert.equal(await tableOf(client), before);
        };
        {
          await using gap = withoutSlicesOfIpv6(cluster);
          const seen = await updates(cluster);
          await eventually(
            "coild to see it",
            async () => await updates(cluster) >= seen + 2,
          );
          await expectAsBefore();
          const [node] = cluster.nodes;
          await cluster.daemonOf(node).kill9();
          await cluster.startCoild(node);
          await eventually(
            "coild to know its client",
            async () => await updates(cluster) > 0,
          );
          await expectAsBefore();
          assert.deepEqual(gap.running, ["slices"]);
        }
        await eventually(
          "the EndpointSlices of IPv6",
          async () => (await slicesOfIpv6(cluster)).length > 0,
        );
        await expectAsBefore();
      },

    "to the Service and back, coild restarted in between: every connection goes on":
      async (cluster) => {
        const gateways = await cluster.gatewaysReady(EGRESS, 2);
        await using chosen = await flowsThroughAll(cluster);
        const selected = (gatewaySelection: "Service" | "Direct") =>
          cluster.patchEgress(EGRESS, { gatewaySelection });
        await selected("Service");
        await eventually(
          "no gateway to choose",
          async () => choicesIn(await tableOf(client)) === 0,
        );
        const address = OUTSIDE.ipv4.near;
        const sources = new Set<string>();
        for (let i = 0; i < MANY / 4; i++) {
          sources.add(await askTcp(client.sockets, address));
        }
        assert.equal(sources.size, 1, "the Service sends a client to one");
        await using flow = await TcpFlow.open(client.sockets, { address });
        const flows = [...chosen.flows, flow];
        await expectUntouched({ flows });
        const [node] = cluster.nodes;
        // New connections have left the gateways by the first step; the others take longer.
        const before = await atRest("the client", () => networkOf(client));
        await cluster.daemonOf(node).kill9();
        await cluster.startCoild(node);
        await coildAtRest(cluster);
        await expectUntouched({ flows });
        assert.equal(await networkOf(client), before);
        await selected("Direct");
        await awaitGateways(cluster, ...gateways);
        await expectUntouched({ flows });
      },
  },
});
