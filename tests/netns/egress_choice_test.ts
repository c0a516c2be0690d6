// Which gateway a client's connections take that its kernel did not track from
// their beginning. No tunnel is needed: a link has its name.
import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { gatewayMark } from "../../lib/egress/mod.ts";
import { clientTable } from "../../lib/egress/plan/table.ts";
import { Address } from "../../lib/inet/mod.ts";
import { ConntrackSocket, NetfilterSocket } from "../../lib/netlink/mod.ts";
import {
  connectIn,
  listenIn,
  missingGateway,
  planOf,
  type PodLab,
  podLab,
  shell,
} from "./egress_client_lab.ts";
import { netnsTest } from "./testing.ts";

const SERVICE = Address.parse("10.96.0.9");
const TUNNEL = "fou4_0a600009";
const SERVER = "198.51.100.9";
const GATEWAYS = ["10.1.9.9", "10.1.9.10"].map(Address.parse);
const MARKS = GATEWAYS.map(gatewayMark);
/** That all of so many take the same of two gateways by chance is as good as impossible. */
const MANY = 20;
const TCP = 6;

const EGRESS = missingGateway(["0.0.0.0/0"], {
  service: { ipv4: SERVICE },
  senders: GATEWAYS,
  direct: GATEWAYS,
  available: ["ipv4"],
});

interface Connection {
  readonly client: Deno.TcpConn;
  readonly server: Deno.TcpConn;
}

/** Connections through the tunnel, of which the kernel knows nothing. */
async function connections(
  { outside, outsideNetns, netns, pod }: PodLab,
  stack: DisposableStack,
): Promise<Connection[]> {
  await shell(
    outside,
    `ip link add up0 type veth peer name ${TUNNEL} netns ${pod.name}
     ip address add ${SERVER}/24 dev up0
     ip link set up0 up
     ip -n ${pod.name} address add 198.51.100.1/24 dev ${TUNNEL}
     ip -n ${pod.name} link set ${TUNNEL} up`,
  );
  using listener = listenIn(outsideNetns, "ipv4");
  const to = { hostname: SERVER, port: listener.addr.port };
  const all: Connection[] = [];
  for (let i = 0; i < MANY; i++) {
    const client = stack.use(await connectIn(netns, to));
    all.push({ client, server: stack.use(await listener.accept()) });
  }
  return all;
}

/** Makes the table of a client that chooses, of whose gateways some are lost. */
async function choose(
  { netns }: PodLab,
  lost: readonly Address[] = [],
): Promise<void> {
  const left = new Set(lost.map(String));
  const plan = planOf([EGRESS], { avoided: left, lost: left });
  assert.equal(plan.tunnels[0]?.name, TUNNEL);
  await using nft = NetfilterSocket.open({ netns });
  await nft.replaceTable(clientTable(plan, { interfaces: [] }));
}

async function send(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
  await from.write(new Uint8Array(1));
  assert.equal(await to.read(new Uint8Array(8)), 1);
}

/** The marks of all connections. */
async function marks({ netns }: PodLab): Promise<Set<number>> {
  using conntrack = ConntrackSocket.open({ netns });
  const tracked = (await listFlows(conntrack))
    .filter(({ protocol }) => protocol === TCP);
  assert.equal(tracked.length, MANY);
  return new Set(tracked.map(({ mark }) => mark));
}

/** What comes in is that of a gateway's datagrams. */
function arriveFrom({ pod }: PodLab, mark: number): Promise<string> {
  return shell(
    pod,
    `nft -f - <<END
table inet arrival {
  chain incoming {
    type filter hook prerouting priority raw
    iifname ${TUNNEL} meta mark set ${mark}
  }
}
END`,
  );
}

for (const first of ["the client", "the other end"]) {
  netnsTest(
    `connections from before the choice go by the Service until they learn their gateway, ${first} speaks first`,
    async () => {
      await using lab = await podLab();
      using stack = new DisposableStack();
      const all = await connections(lab, stack);
      await choose(lab);
      for (const { client, server } of all) {
        if (first === "the client") await send(client, server);
        await send(server, client);
        await send(client, server);
      }
      assert.deepEqual(await marks(lab), new Set([0]));
      const [, mark = 0] = MARKS;
      await arriveFrom(lab, mark);
      for (const { client, server } of all) await send(server, client);
      assert.deepEqual(await marks(lab), new Set([mark]));
      await shell(lab.pod, "nft delete table inet arrival");
      for (const { client, server } of all) {
        await send(client, server);
        await send(server, client);
      }
      assert.deepEqual(await marks(lab), new Set([mark]));
    },
  );
}

netnsTest(
  "what the kernel has forgotten of a lost gateway's connections goes by another gateway, which ends them",
  async () => {
    await using lab = await podLab();
    using stack = new DisposableStack();
    const all = await connections(lab, stack);
    const [lost, other] = GATEWAYS;
    assert.ok(lost && other);
    await choose(lab, [lost]);
    for (const { client, server } of all) await send(client, server);
    assert.deepEqual(await marks(lab), new Set([gatewayMark(other)]));
  },
);
