// Gateways lost in other ways than by their end, under the traffic of clients
// that choose (gatewaySelection: Direct).
import assert from "node:assert/strict";
import { PODS } from "../../lib/kube/mod.ts";
import { assertSoon, eventually, inNetns, sleep, writing } from "../lab/mod.ts";
import { awaitReady } from "./announced_drain.ts";
import { awaitProbed } from "./coild_metrics.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { egressTest } from "./e2e_stage.ts";
import {
  expectFailover,
  expectMoved,
  expectUntouched,
  FailoverWatch,
  hang,
} from "./failover_watch.ts";
import { cutOff, failGateways } from "./gateway_failures.ts";
import { holdEndpointSlices, isReadyEndpoint } from "./held_slices.ts";
import { dataOf, probesOf } from "./lossy_gateway.ts";
import { addTable, type NftScript, tableOf } from "./nft_tables.ts";
import {
  OUTSIDE,
  OUTSIDE_NETWORKS,
  VM_FAMILIES,
  type VmFamily,
} from "./topology.ts";
import { askTcp, BEFORE_RETRY_MS } from "./traffic.ts";
import { Stranger } from "./tunnel_listener.ts";

const EGRESS = "direct";
const TUNNEL_PORT = 5555;
/** A gateway that is to be lost is so within this time, where nothing else keeps the machine busy. */
const LOSS_MS = 5_000;
/** So soon new connections leave a gateway whose pod is deleted, on a machine that has time. */
const LEFT_MS = 5_000;
/** Connections that are to be ended are so within this time after new ones use another gateway, where nothing else keeps the machine busy. */
const END_MS = 2_000;
/** What a failover takes in which coild is killed and starts again, on a machine that has time. */
const RESTARTED_MS = 15_000;

/** To probes, and to clients. */
const ANSWERS = [`udp sport ${TUNNEL_PORT}`, `udp dport ${TUNNEL_PORT}`];

/** What a gateway does not get, or does not send. */
interface Dropped {
  readonly incoming?: readonly string[];
  readonly outgoing?: readonly string[];
}

function dropping({ incoming = [], outgoing = [] }: Dropped): string {
  const rules = (whats: readonly string[]) =>
    whats.map((what) => `${what} drop`).join("\n");
  return `table inet broken {
  chain incoming {
    type filter hook prerouting priority -400
    ${rules(incoming)}
  }
  chain outgoing {
    type filter hook postrouting priority 400
    ${rules(outgoing)}
  }
}`;
}

/** What keeps a node's own programs from the API server. */
const CUT_OFF = {
  name: "cut",
  text: `table inet cut {
  chain outgoing {
    type filter hook output priority -400
    meta l4proto tcp ip daddr != 172.31.0.0/24 drop
    meta l4proto tcp ip6 daddr != fd31::/64 drop
  }
}`,
};

async function withTable(
  netns: string,
  table: NftScript,
  work: () => Promise<void>,
): Promise<void> {
  const remove = await addTable(netns, table);
  try {
    await work();
  } finally {
    await remove();
  }
}

const broken = (
  { pod }: Gateway,
  dropped: Dropped,
  work: () => Promise<void>,
): Promise<void> =>
  withTable(
    pod.sandbox.netns,
    { name: "broken", text: dropping(dropped) },
    work,
  );

/** The gateway on the second node, or the first one of several there. */
async function doomedOf(cluster: EgressCluster): Promise<Gateway> {
  const ready = await cluster.gatewaysReady(EGRESS, 2);
  const doomed = ready.find(({ pod }) =>
    pod.node.name === cluster.nodes[1].name
  );
  assert.ok(doomed, "the gateways are on two nodes");
  return doomed;
}

/** Another gateway than {@link doomedOf}, which may have been lost. */
async function laterOf(cluster: EgressCluster): Promise<Gateway> {
  const doomed = await doomedOf(cluster);
  const ready = await cluster.gatewaysReady(EGRESS, 2);
  const later = ready.find((each) => each !== doomed);
  assert.ok(later);
  return later;
}

/** Traffic of each family of the client through the gateway that is to fail and, with `other`, through the other one. */
async function watching(
  { client, doomed, other = false }: {
    readonly client: Client;
    readonly doomed: Gateway;
    readonly other?: boolean;
  },
  work: (watches: readonly FailoverWatch[]) => Promise<void>,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const watches: FailoverWatch[] = [];
  for (const family of familiesOf(client)) {
    const address = OUTSIDE[family].near;
    const options = { doomed, other, address };
    watches.push(stack.use(await FailoverWatch.open(client, options)));
  }
  for (const watch of watches) watch.failing();
  await work(watches);
}

function familiesOf({ pod }: Client): readonly VmFamily[] {
  return VM_FAMILIES.filter((family) =>
    pod.addresses.some((each) => each.includes(":") === (family === "ipv6"))
  );
}

/** Drops packets of a gateway until all of both families goes on by the other one. */
async function expectMovedWhile(
  cluster: EgressCluster,
  dropped: Dropped,
): Promise<void> {
  const doomed = await doomedOf(cluster);
  const watched = { client: clients.dual, doomed, other: true };
  await watching(watched, async (watches) => {
    await awaitProbed(cluster);
    await expectMoved(watches, {
      fail: (moved) => broken(doomed, dropped, moved),
    });
  });
}

/** Many new connections of each family of the client, none of them by this gateway. */
async function expectAvoided(client: Client, { pod }: Gateway): Promise<void> {
  for (const family of familiesOf(client)) {
    for (let i = 0; i < 20; i++) {
      const source = await askTcp(client.sockets, OUTSIDE[family].near);
      assert.ok(!pod.addresses.includes(source), source);
    }
  }
}

/** Which gateways the client's table has as lost: one for each family. */
async function lostSets(client: Client): Promise<readonly string[]> {
  const table = await tableOf(client);
  return table.match(/set lost_\S+ \{\s+type mark\s+elements/g) ?? [];
}

let clients: Readonly<Record<"dual" | "ipv4" | "ipv6", Client>>;

async function setUp(cluster: EgressCluster): Promise<void> {
  await cluster.createEgress(EGRESS, {
    destinations: VM_FAMILIES.map((family) => OUTSIDE_NETWORKS[family].near),
    replicas: 2,
    fouSourcePortAuto: true,
    gatewaySelection: "Direct",
  });
  const make = (name: string, namespace?: string) =>
    cluster.createClient({
      name,
      egresses: EGRESS,
      ...(namespace !== undefined && { namespace }),
    });
  clients = {
    dual: await make("dual"),
    ipv4: await make("only4", "clients-ipv4"),
    ipv6: await make("only6", "clients-ipv6"),
  };
}

/** A gateway's kernel hangs under the traffic of all clients. */
async function loseForAll(cluster: EgressCluster): Promise<void> {
  const doomed = await doomedOf(cluster);
  await using stack = new AsyncDisposableStack();
  const flows = [
    [clients.dual, "ipv4"],
    [clients.dual, "ipv6"],
    [clients.ipv4, "ipv4"],
    [clients.ipv6, "ipv6"],
  ] as const;
  const watches: FailoverWatch[] = [];
  for (const [client, family] of flows) {
    const address = OUTSIDE[family].near;
    const options = { doomed, other: true, address };
    watches.push(stack.use(await FailoverWatch.open(client, options)));
  }
  await hang(cluster, { doomed, watches });
}

/** The node of the clients alone, so that all gateways are lost for it at once. */
async function cutOffClients(cluster: EgressCluster): Promise<void> {
  const { dual: client } = clients;
  const doomed = await laterOf(cluster);
  const [node] = cluster.nodes;
  await watching({ client, doomed }, async (watches) => {
    const heal = await cutOff([node]);
    try {
      await sleep(LOSS_MS);
      assert.deepEqual(await lostSets(client), []);
    } finally {
      await heal();
    }
    await expectUntouched(watches);
    for (const watch of watches) {
      const { gaps } = await watch.seen();
      assert.ok(Math.min(...gaps) > LOSS_MS / 2, `it was cut off: ${gaps}`);
    }
    assert.deepEqual(await lostSets(client), []);
  });
}

async function keepLost(cluster: EgressCluster): Promise<void> {
  const { dual: client } = clients;
  const ends = async () =>
    /l4proto tcp ct mark @gateways_/.test(await tableOf(client));
  assert.ok(await ends());
  await cluster.patchEgress(EGRESS, { lostConnections: "Keep" });
  await eventually("connections to be kept", async () => !await ends());
  const doomed = await laterOf(cluster);
  await awaitProbed(cluster);
  await watching({ client, doomed }, async (watches) => {
    const gateways = [doomed];
    const heal = await failGateways("hung", { cluster, gateways });
    try {
      await eventually(
        "the gateway to be lost, in both families",
        async () => (await lostSets(client)).length === VM_FAMILIES.length,
      );
      await sleep(END_MS);
      await expectAvoided(client, doomed);
    } finally {
      await heal();
    }
    await expectUntouched(watches);
  });
}

const FAMILIES_TITLE =
  "a gateway's kernel hangs: connections of pods of both families, of IPv4 alone and of IPv6 alone end, and go on by the other one";

egressTest("egress failover in originating-only mode", {
  // Gateways on another node than the clients: what is cut is cut for all of them.
  cluster: { coildArgs: ["--enable-originating-only"], gatewayNode: 1 },
  setUp,
  scenarios: {
    [FAMILIES_TITLE]: loseForAll,

    "the clients' node is cut off, and comes back: no gateway is lost, connections and datagrams go on":
      cutOffClients,

    "a gateway's kernel hangs, and lostConnections is Keep: new connections use the other, open ones and datagrams wait, and go on":
      keepLost,
  },
});

// A gateway that was lost gets no new connections for longer each time: those that lose none come first.
egressTest("egress failover", {
  setUp,
  scenarios: {
    [FAMILIES_TITLE]: loseForAll,

    "a gateway's pod is deleted, and its endpoints stay as they are: by its own word new connections leave it, open ones go on":
      async (cluster) => {
        const { dual: client } = clients;
        const doomed = await doomedOf(cluster);
        const { namespace, name } = doomed.pod;
        const { client: api, admin } = cluster.access;
        await watching({ client, doomed }, async (watches) => {
          await using _held = await holdEndpointSlices(cluster);
          await awaitReady(client, 2);
          const left = async () => {
            await api.delete(PODS, { namespace, name });
            await awaitReady(client, 1);
          };
          const what = "new connections leave the gateway";
          await assertSoon(left, {
            what,
            limitMs: LEFT_MS,
            step: writing(admin),
          });
          await expectAvoided(client, doomed);
          await expectUntouched(watches);
          assert.ok(doomed.process.isRunning, "it serves what is open");
          assert.ok(
            await isReadyEndpoint(cluster, { egress: EGRESS, gateway: doomed }),
          );
        });
        // It would wait until its kernel has forgotten the datagrams.
        await doomed.process.kill9();
        await cluster.gatewaysReady(EGRESS, 2);
      },

    "probes of a gateway pass, and what clients send does not: it is not lost, and what waits goes on afterwards":
      async (cluster) => {
        const doomed = await doomedOf(cluster);
        const incoming = VM_FAMILIES.map(dataOf);
        const { dual: client } = clients;
        await awaitProbed(cluster);
        await watching({ client, doomed }, async (watches) => {
          await broken(doomed, { incoming }, async () => {
            await sleep(LOSS_MS);
            assert.deepEqual(await lostSets(client), []);
          });
          await expectUntouched(watches);
        });
      },

    "all gateways hang, and come back: none is lost, connections go on": async (
      cluster,
    ) => {
      const { dual: client } = clients;
      const doomed = await doomedOf(cluster);
      const gateways = await cluster.gatewaysReady(EGRESS, 2);
      await awaitProbed(cluster);
      await watching({ client, doomed }, async (watches) => {
        const heal = await failGateways("hung", { cluster, gateways });
        try {
          await sleep(LOSS_MS);
          assert.deepEqual(await lostSets(client), []);
        } finally {
          await heal();
        }
        await cluster.gatewaysReady(EGRESS, 2);
        await expectUntouched(watches);
      });
    },

    "packets to a gateway pass, and its answers do not come back: it is lost": (
      cluster,
    ) => expectMovedWhile(cluster, { outgoing: ANSWERS }),

    "probes of a gateway are lost, and what clients send is not: it is lost all the same":
      (cluster) =>
        expectMovedWhile(cluster, { incoming: VM_FAMILIES.map(probesOf) }),

    "all gateways are deleted, and others come: connections are refused at once, and work again":
      async (cluster) => {
        const { ipv4: { sockets } } = clients;
        const failure = () =>
          askTcp(sockets, OUTSIDE.ipv4.near, { timeoutMs: BEFORE_RETRY_MS })
            .then(() => undefined, (error: Error) => error.name);
        {
          // New ones are ready so soon that nothing would notice the time without.
          using _ = cluster.kubelet.cordon();
          for (const { pod } of await cluster.gatewaysReady(EGRESS, 2)) {
            const { namespace, name } = pod;
            const target = { namespace, name, gracePeriodSeconds: 0 };
            await cluster.access.client.delete(PODS, target);
          }
          await eventually("connections to be refused", async () => {
            const name = await failure();
            return name !== undefined && name !== "TimeoutError";
          });
        }
        await cluster.gatewaysReady(EGRESS, 2);
        await eventually(
          "connections to work",
          async () => await failure() === undefined,
        );
        await eventually(
          "nothing to be left of the former gateways",
          async () => {
            assert.deepEqual(await lostSets(clients.ipv4), []);
            return true;
          },
        );
      },

    "the API server is away, and its EndpointSlices are stale: a gateway is lost as ever":
      async (cluster) => {
        const doomed = await doomedOf(cluster);
        const [{ netns }] = cluster.nodes;
        const { ipv4: client } = clients;
        // Of gateways that came a moment ago coild has to know before it is cut off.
        await awaitReady(client, 2);
        await withTable(
          netns,
          CUT_OFF,
          () => expectFailover(cluster, { client, doomed }),
        );
      },

    "coild is killed in the middle of a failover, and started again: connections end":
      async (cluster) => {
        const doomed = await doomedOf(cluster);
        const { ipv4: client } = clients;
        const incoming = [`udp dport ${TUNNEL_PORT}`];
        const watched = { client, doomed, other: true };
        await watching(watched, async (watches) => {
          await awaitProbed(cluster);
          await expectMoved(watches, {
            limitMs: RESTARTED_MS,
            fail: (moved) =>
              broken(doomed, { incoming }, async () => {
                await eventually(
                  "the client to know",
                  async () => (await lostSets(client)).length > 0,
                  { intervalMs: 1 },
                );
                const [node] = cluster.nodes;
                await cluster.daemonOf(node).kill9();
                await cluster.startCoild(node);
                await moved();
                assert.ok(doomed.ready, "its kubelet has not noticed");
              }),
          });
        });
      },

    "another pod has a gateway's address at once: it gets nothing of clients once the gateway is lost":
      async (cluster) => {
        const doomed = await doomedOf(cluster);
        const { netns } = doomed.pod.sandbox;
        const { namespace, name } = doomed.pod;
        const watched = { client: clients.ipv4, doomed, other: true };
        await watching(watched, async (watches) => {
          await awaitProbed(cluster);
          using _ = cluster.kubelet.cordon();
          await doomed.process.kill9();
          await expectMoved(watches, {
            fail: async (moved) => {
              // Its network is a stranger's now, in which a program listens.
              await inNetns(netns, "sh", [
                "-c",
                `set -e
nft flush ruleset
ip fou del port ${TUNNEL_PORT} ipproto 4
for link in $(ip -o link | grep -o 'coil_[a-z0-9]*'); do ip link delete $link; done`,
              ]);
              await using stranger = new Stranger(netns);
              await moved();
              const before = stranger.packets;
              await sleep(LOSS_MS);
              assert.equal(stranger.packets, before);
              assert.ok(stranger.probes > 0, "it is probed still");
            },
          });
        });
        const target = { namespace, name, gracePeriodSeconds: 0 };
        await cluster.access.client.delete(PODS, target);
        await cluster.gatewaysReady(EGRESS, 2);
      },
  },
});
