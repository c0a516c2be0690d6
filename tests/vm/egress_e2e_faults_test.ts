import assert from "node:assert/strict";
import { PODS, SERVICES } from "../../lib/kube/mod.ts";
import {
  assertSoon,
  assertWithin,
  atRest,
  eventually,
  inNetns,
  lagWhile,
} from "../lab/mod.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { egressTest } from "./e2e_stage.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import { askTcp, type FlowReport, TcpFlow, UdpFlow } from "./traffic.ts";

/** An Egress of two gateways, and one of a single gateway. */
const PAIR = "pair";
const SINGLE = "single";
/** The network outside that each of them leads to. */
const NETWORKS = { [PAIR]: "near", [SINGLE]: "far" } as const;
type EgressName = keyof typeof NETWORKS;

/** Flows are asked for answers this often: there are 16 of them. */
const INTERVAL_MS = 200;
/** Without an answer while a daemon starts. */
const PAUSE_MS = 10_000;
/** Longer than all the world takes to learn that a gateway is gone. */
const MOVE_MS = 30_000;

/** One on each node. */
let clients: readonly Client[] = [];

interface Reports {
  readonly tcp: readonly FlowReport[];
  readonly udp: readonly (FlowReport & { readonly lost: number })[];
  /** The lag while they ran. */
  readonly lagMs: number;
}

/** Runs while a TCP connection and datagrams of each client and family are under way, and returns what they saw. */
async function underTraffic(
  ...traffic: Parameters<typeof flowsDuring>
): Promise<Reports> {
  const { value, lagMs } = await lagWhile(() => flowsDuring(...traffic));
  return { ...value, lagMs };
}

async function flowsDuring(
  egress: EgressName,
  run: () => Promise<void>,
  options: { readonly isGatewayLost?: true } = {},
): Promise<Omit<Reports, "lagMs">> {
  await using flows = new AsyncDisposableStack();
  const tcp: TcpFlow[] = [];
  const udp: UdpFlow[] = [];
  for (const { sockets } of clients) {
    for (const family of VM_FAMILIES) {
      const address = OUTSIDE[family][NETWORKS[egress]];
      const flow = { address, intervalMs: INTERVAL_MS };
      tcp.push(flows.use(await TcpFlow.open(sockets, flow)));
      udp.push(flows.use(new UdpFlow(sockets, flow)));
    }
  }
  await answering([...tcp, ...udp]);
  await run();
  // A connection is lost with its gateway: it breaks, or waits for an answer for ever.
  await answering(options.isGatewayLost ? udp : [...tcp, ...udp]);
  const lost = await Promise.all(udp.map((flow) => flow.countLost()));
  return {
    tcp: tcp.map((flow) => flow.report),
    udp: udp.map((flow, i) => ({ ...flow.report, lost: lost[i] ?? 0 })),
  };
}

/** Waits until each flow has had answers from now on. */
async function answering(
  flows: readonly { readonly report: FlowReport }[],
): Promise<void> {
  const before = flows.map((flow) => flow.report.answered);
  await eventually("answers on all flows", () => {
    const silent = flows.filter((flow, i) =>
      flow.report.answered <= (before[i] ?? 0) + 2
    );
    if (silent.length === 0) return true;
    throw new Error(`silent: ${silent.map(describe).join("; ")}`);
  });
}

function describe({ report }: { readonly report: FlowReport }): string {
  const { sent, answered, sources, longestGapMs, error = "none" } = report;
  return `sent ${sent}, answered ${answered}, from ${
    [...sources].join()
  }, gap ${longestGapMs} ms, error ${error}`;
}

/** No flow broke, paused or changed its gateway, and none lost more than two datagrams. */
function expectUnbroken({ tcp, udp, lagMs }: Reports): void {
  for (const report of [...tcp, ...udp]) {
    const what = describe({ report });
    assert.equal(report.error, undefined, what);
    assert.equal(report.sources.size, 1, what);
    assertWithin(report.longestGapMs, { what, limitMs: PAUSE_MS, lagMs });
  }
  for (const report of udp) {
    assert.ok(report.lost <= 2, `${describe({ report })}, lost ${report.lost}`);
  }
}

/** Runs while nothing may change in the clients: a link that is recreated has another index. */
async function withLinksAsTheyAre(run: () => Promise<void>): Promise<void> {
  const links = async () => {
    const texts = clients.map(({ pod }) =>
      inNetns(pod.sandbox.netns, "ip", ["-o", "link", "show"])
    );
    return (await Promise.all(texts)).join("\n");
  };
  const before = await atRest("the clients' links", links);
  await run();
  assert.equal(await links(), before);
}

/** Datagrams find another gateway by themselves. */
function expectDatagrams({ udp, lagMs }: Reports): void {
  for (const report of udp) {
    const what = describe({ report });
    assertWithin(report.longestGapMs, { what, limitMs: MOVE_MS, lagMs });
  }
}

async function deleteGateway(
  cluster: EgressCluster,
  gateway: Gateway,
  options: { readonly gracePeriodSeconds?: number } = {},
): Promise<void> {
  const { namespace, name } = gateway.pod;
  await cluster.access.client.delete(PODS, { namespace, name, ...options });
}

async function gone(cluster: EgressCluster, gateway: Gateway): Promise<void> {
  await eventually(
    `${gateway.pod.name} to be gone`,
    () => !cluster.kubelet.gateways().includes(gateway),
  );
}

/** The gateway whose address the outside sees. */
function gatewayOf(
  cluster: EgressCluster,
  egress: EgressName,
  source: string,
): Gateway {
  const gateway = cluster.gatewaysOf(egress).find(({ pod }) =>
    pod.addresses.includes(source)
  );
  assert.ok(gateway, `${source} is no gateway's of ${egress}`);
  return gateway;
}

/** Waits until new connections of all clients and families leave by a gateway. */
async function connectable(
  cluster: EgressCluster,
  egress: EgressName,
): Promise<void> {
  for (const { sockets } of clients) {
    for (const family of VM_FAMILIES) {
      const address = OUTSIDE[family][NETWORKS[egress]];
      await eventually(`a gateway before ${address}`, async () => {
        const source = await askTcp(sockets, address, { timeoutMs: 2_000 });
        return gatewayOf(cluster, egress, source);
      });
    }
  }
}

/** Kills the gateway's process, and waits until its container runs and serves again. */
async function crash(gateway: Gateway): Promise<void> {
  const { restarts } = gateway;
  await gateway.process.kill9();
  await eventually(
    `${gateway.pod.name} to be back`,
    () => gateway.restarts > restarts && gateway.ready,
  );
}

egressTest("egress faults, under traffic", {
  setUp: async (cluster) => {
    const destinations = (egress: EgressName) =>
      VM_FAMILIES.map((family) => OUTSIDE_NETWORKS[family][NETWORKS[egress]]);
    await Promise.all([
      cluster.createEgress(PAIR, {
        destinations: destinations(PAIR),
        replicas: 2,
        fouSourcePortAuto: true,
      }),
      cluster.createEgress(SINGLE, { destinations: destinations(SINGLE) }),
    ]);
    const egresses = `${PAIR},${SINGLE}`;
    clients = await Promise.all(
      [0, 1].map((node) =>
        cluster.createClient({ name: `client${node}`, node, egresses })
      ),
    );
  },
  scenarios: {
    "kill -9 of coild, and its restart: nothing is interrupted": async (
      cluster,
    ) => {
      await withLinksAsTheyAre(async () => {
        expectUnbroken(
          await underTraffic(PAIR, async () => {
            for (const node of cluster.nodes) {
              await cluster.daemonOf(node).kill9();
              await cluster.startCoild(node);
            }
          }),
        );
      });
    },

    "rolling restart of coild: nothing is interrupted": async (cluster) => {
      await withLinksAsTheyAre(async () => {
        expectUnbroken(
          await underTraffic(SINGLE, async () => {
            for (const node of cluster.nodes) {
              await cluster.daemonOf(node).stop({ graceMs: 20_000 });
              await cluster.startCoild(node);
            }
          }),
        );
      });
    },

    "kill -9 of the only coil-egress: its connections outlive it": async (
      cluster,
    ) => {
      const { tcp } = await underTraffic(SINGLE, async () => {
        const [gateway] = await cluster.gatewaysReady(SINGLE, 1);
        assert.ok(gateway);
        await crash(gateway);
      });
      for (const report of tcp) {
        assert.equal(report.error, undefined, describe({ report }));
      }
    },

    "kill -9 of one coil-egress after the other: datagrams go on by the other, and connect again":
      async (cluster) => {
        const reports = await underTraffic(PAIR, async () => {
          for (const gateway of await cluster.gatewaysReady(PAIR, 2)) {
            await crash(gateway);
            await connectable(cluster, PAIR);
          }
        }, { isGatewayLost: true });
        expectDatagrams(reports);
      },

    "a gateway is drained: its connections go on, and end; new ones use the other":
      async (cluster) => {
        const [client] = clients;
        assert.ok(client);
        const address = OUTSIDE.ipv4[NETWORKS[PAIR]];
        await using flow = await TcpFlow.open(client.sockets, { address });
        const [source = ""] = flow.report.sources;
        const drained = gatewayOf(cluster, PAIR, source);
        await deleteGateway(cluster, drained);
        await eventually(
          "the other to be used",
          async () => await askTcp(client.sockets, address) !== source,
        );
        await answering([flow]);
        assert.equal(flow.report.error, undefined);
        assert.ok(drained.process.isRunning, "it has not waited for its flow");
        await flow[Symbol.asyncDispose]();
        await eventually(
          "the gateway to end",
          () => !drained.process.isRunning,
        );
        await cluster.gatewaysReady(PAIR, 2);
      },

    "a gateway disappears: what went through it goes through another": async (
      cluster,
    ) => {
      const reports = await underTraffic(PAIR, async () => {
        const [gateway] = await cluster.gatewaysReady(PAIR, 2);
        assert.ok(gateway);
        await deleteGateway(cluster, gateway, { gracePeriodSeconds: 0 });
        await gone(cluster, gateway);
        await connectable(cluster, PAIR);
        await cluster.gatewaysReady(PAIR, 2);
      }, { isGatewayLost: true });
      expectDatagrams(reports);
    },

    "rolling restart of the gateways: no flow of datagrams stops": async (
      cluster,
    ) => {
      const reports = await underTraffic(PAIR, async () => {
        await cluster.replaceGateways(PAIR, 2);
        await connectable(cluster, PAIR);
      }, { isGatewayLost: true });
      expectDatagrams(reports);
    },

    "the Service gets another cluster address: everything goes on": async (
      cluster,
    ) => {
      const target = { namespace: GATEWAYS, name: SINGLE };
      const { client } = cluster.access;
      const { tcp } = await underTraffic(SINGLE, async () => {
        const before = await client.get(SERVICES, target);
        await client.delete(SERVICES, target);
        await eventually("it to be back, with another address", async () => {
          const { spec } = await client.get(SERVICES, target);
          return spec?.clusterIP !== before.spec?.clusterIP;
        });
        await cluster.gatewaysReady(SINGLE, 1);
        await connectable(cluster, SINGLE);
      });
      for (const report of tcp) {
        assert.equal(report.error, undefined, describe({ report }));
      }
    },

    "no gateway at all: refused at once, until there is one": async (
      cluster,
    ) => {
      const [gateway] = await cluster.gatewaysReady(SINGLE, 1);
      const [client] = clients;
      assert.ok(gateway && client);
      const address = OUTSIDE.ipv4[NETWORKS[SINGLE]];
      const failure = () =>
        askTcp(client.sockets, address, { timeoutMs: 1_000 })
          .then(() => undefined, (error: Error) => error.name);
      {
        // A new gateway is ready so soon that nobody would notice the time without one.
        using _ = cluster.kubelet.cordon();
        await deleteGateway(cluster, gateway, { gracePeriodSeconds: 0 });
        await gone(cluster, gateway);
        const what = "connections to be refused";
        const refused = async () => {
          const name = await failure();
          return name !== undefined && name !== "TimeoutError";
        };
        await assertSoon(
          () => eventually(what, refused, { intervalMs: 100 }),
          { what, limitMs: MOVE_MS },
        );
      }
      await eventually(
        "a gateway again",
        async () => await failure() === undefined,
        { timeoutMs: 180_000, intervalMs: 100 },
      );
      await cluster.gatewaysReady(SINGLE, 1);
      await connectable(cluster, SINGLE);
    },
  },
});
