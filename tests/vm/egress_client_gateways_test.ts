// Connections of a client with two gateways stay with the one that they have,
// also where the kernel does not know them; and where the pod has addresses
// that gateways do not know.
import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { type Address, FAMILIES } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { EgressServer, gatewayMark } from "../../lib/egress/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import {
  type ClientLab,
  clientLab,
  connectOutside,
  directGatewayFor,
  EVERYWHERE,
  forgetTcp,
  gatewayFor,
  type OutsideConnection,
  send,
} from "./egress_client_lab.ts";
import {
  ADDRESSES,
  addressesOf,
  CLIENTS,
  planOf,
  shell,
} from "./egress_server_lab.ts";

/** The Service leads to the first. */
const FIRST = Object.values(addressesOf("gateway"));
const SECOND = Object.values(addressesOf("stranger"));
const BOTH = [...FIRST, ...SECOND];
/** That all of so many take the right one of two gateways by chance is as good as impossible. */
const MANY = 12;

const MODES = { plain: false, "originating-only": true };

async function twoGateways(): Promise<AsyncDisposable & { lab: ClientLab }> {
  await using stack = new AsyncDisposableStack();
  const lab = stack.use(await clientLab());
  const netns = stack.use(Netns.open(lab.lab.stranger.path));
  const plan = planOf({ addresses: addressesOf("stranger") });
  const second = stack.use(await EgressServer.open(plan, { netns }));
  await second.setClients(CLIENTS);
  const owned = stack.move();
  return { lab, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The Egress whose new connections go to these gateways. */
function choosing(direct: readonly Address[]) {
  return { ...directGatewayFor(EVERYWHERE, { senders: BOTH }), direct };
}

for (const family of FAMILIES) {
  for (const first of ["the client", "the other end"]) {
    Deno.test(`connections by the Service go on when the client comes to choose its gateway, and ${first} speaks first, ${family}`, async () => {
      await using two = await twoGateways();
      const { lab } = two;
      await lab.apply([gatewayFor(EVERYWHERE, { senders: BOTH })]);
      using stack = new DisposableStack();
      const all: OutsideConnection[] = [];
      for (let i = 0; i < MANY; i++) {
        all.push(stack.use(await connectOutside(two.lab, family)));
      }
      await lab.apply([choosing(BOTH)]);
      for (const { client, outside } of all) {
        if (first === "the client") await send(client, outside);
        await send(outside, client);
        await send(client, outside);
      }
      using conntrack = ConntrackSocket.open({ netns: lab.netns });
      const [gateway] = FIRST.filter((each) => each.family === family);
      assert.ok(gateway);
      const mark = gatewayMark(gateway);
      const marked = (await listFlows(conntrack)).filter((each) =>
        each.protocol === 6 && each.mark === mark
      );
      assert.equal(marked.length, MANY, "they have learned their gateway");
    });
  }

  for (const [mode, originatingOnly] of Object.entries(MODES)) {
    Deno.test(`a forgotten connection stays with its gateway when the other end speaks first, ${mode}, ${family}`, async () => {
      await using two = await twoGateways();
      await two.lab.apply([choosing(SECOND)], { originatingOnly });
      using connection = await connectOutside(two.lab, family);
      const { client, outside } = connection;
      assert.equal(outside.remoteAddr.hostname, ADDRESSES.stranger[family]);
      await forgetTcp(two.lab);
      await send(outside, client);
      await send(client, outside);
      for (const mode of [!originatingOnly, originatingOnly]) {
        await two.lab.apply([choosing(FIRST)], { originatingOnly: mode });
        await send(client, outside);
        await send(outside, client);
      }
    });
  }
}

Deno.test("a pod that has other addresses sends by the one that its gateways know", async () => {
  await using lab = await clientLab({ servers: true });
  await shell(
    lab.client,
    `ip link add net1 type bridge
     ip link set net1 up
     ip address add 198.51.100.1/32 dev lo
     ip -6 address add 2001:db8:7::5/64 dev net1 nodad`,
  );
  for (const originatingOnly of [false, true]) {
    await lab.apply([gatewayFor(EVERYWHERE)], { originatingOnly });
    for (const family of FAMILIES) {
      const seen = await lab.lab.ask(lab.client, family);
      assert.equal(seen, ADDRESSES.gateway[family]);
    }
  }
});

Deno.test("a pod whose address cannot be used yet becomes a client all the same", async () => {
  await using lab = await clientLab();
  const { ipv6 } = ADDRESSES.client;
  await shell(
    lab.client,
    `ip -6 address del ${ipv6}/64 dev eth0
     echo 600 > /proc/sys/net/ipv6/conf/eth0/dad_transmits
     ip -6 address add ${ipv6}/64 dev eth0`,
  );
  const egress = gatewayFor(EVERYWHERE);
  for (const _time of [1, 2]) {
    const { awaitsAddress } = await lab.apply([egress]);
    assert.equal(awaitsAddress, true);
  }
  assert.doesNotMatch(await lab.state(), /^default dev fou6_.* src /m);
  await shell(
    lab.client,
    `ip -6 address del ${ipv6}/64 dev eth0
     ip -6 address add ${ipv6}/64 dev eth0 nodad`,
  );
  const { awaitsAddress } = await lab.apply([egress]);
  assert.equal(awaitsAddress, false);
  assert.match(await lab.state(), /^default dev fou6_.* src /m);
});
