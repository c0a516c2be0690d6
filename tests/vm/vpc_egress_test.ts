// A client of an Egress whose address is of a secondary ENI: real tunnels, in a
// VPC that drops what has no source of the ENI that it comes by.
import assert from "node:assert/strict";
import { applyClient, EgressServer, planServer } from "../../lib/egress/mod.ts";
import { Address, FAMILIES } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { settingsOf } from "../../lib/vpc/host/testing.ts";
import { run } from "../lab/mod.ts";
import { type TempNetns, tempNetns } from "../netns/testing.ts";
import { PEER, PODS, type VpcLab, vpcLab } from "../netns/vpc_lab.ts";
import { gatewayFor, planOf } from "./egress_client_lab.ts";
import { serveOutside } from "./egress_outside.ts";
import { PORT, shell } from "./egress_server_lab.ts";

/** A host that only the gateway reaches. */
const BEYOND = { ipv4: "192.0.2.9", ipv6: "2001:db8:77::9" } as const;
const GATEWAY = {
  ipv4: Address.parse(PEER.ipv4),
  ipv6: Address.parse(PEER.ipv6),
};

/** Joins the host to the VPC. Its answers go to the gateway alone: a pod that asks by itself gets none. */
async function joinBeyond(
  { fabric }: VpcLab,
  beyond: TempNetns,
): Promise<void> {
  await shell(
    fabric,
    `ip link add tobeyond type veth peer name eth0 netns ${beyond.name}
     ip link set tobeyond addrgenmode none
     ip address add fe80::1/64 dev tobeyond nodad
     ip link set tobeyond up
     ip -n ${beyond.name} address add ${BEYOND.ipv4}/32 dev eth0
     ip -n ${beyond.name} address add ${BEYOND.ipv6}/128 dev eth0 nodad
     ip -n ${beyond.name} link set eth0 up
     ip route add ${BEYOND.ipv4} dev tobeyond
     ip -6 route add ${BEYOND.ipv6} dev tobeyond
     ip -n ${beyond.name} route add 10.0.1.1 dev eth0
     ip -n ${beyond.name} route add ${PEER.ipv4} via 10.0.1.1
     ip -n ${beyond.name} -6 route add ${PEER.ipv6} via fe80::1 dev eth0`,
  );
}

/** What the host beyond sees as the client's address; undefined when the client does not reach it. */
async function seenFrom(
  client: TempNetns,
  host: string,
  { seconds = 60 }: { readonly seconds?: number } = {},
): Promise<string | undefined> {
  const url = host.includes(":") ? `http://[${host}]/0` : `http://${host}/0`;
  return await run("nsenter", [
    `--net=${client.path}`,
    ...["curl", "-sSm", `${seconds}`, url],
  ]).then((text) => text.trim(), () => undefined);
}

Deno.test("a client of an Egress with an address of a secondary ENI reaches its gateway by that ENI", async () => {
  await using lab = await vpcLab();
  const settings = settingsOf({ families: FAMILIES });
  assert.deepEqual((await lab.host.ensure(settings)).problems, []);
  await using beyond = await tempNetns("beyond");
  await joinBeyond(lab, beyond);
  using ofBeyond = Netns.open(beyond.path);
  await using _served = serveOutside(ofBeyond, Object.values(BEYOND));
  using ofPeer = Netns.open(lab.peer.path);
  const clients = Object.values(PODS.second);
  await using server = await EgressServer.open(
    planServer({
      addresses: GATEWAY,
      ifname: "eth0",
      mtu: 1500,
      port: PORT,
      sourcePortAuto: true,
    }),
    { netns: ofPeer },
  );
  await server.setClients(clients);
  const { second } = lab.pods;
  using netns = Netns.open(second.path);
  const gateway = gatewayFor(["192.0.2.0/24", "2001:db8:77::/64"], {
    service: GATEWAY,
    senders: Object.values(GATEWAY),
  });
  await applyClient(planOf([gateway], { addresses: PODS.second }), { netns });

  for (const family of FAMILIES) {
    assert.equal(await seenFrom(second, BEYOND[family]), PEER[family]);
  }
  assert.deepEqual(await lab.broken(), [], "all else is as before");
  const none = { by_primary: 0, by_secondary: 0, private: 0 };
  assert.deepEqual(await lab.dropped(), none);

  await shell(lab.node.host, "ip rule del pref 1536 from 10.0.1.112/28");
  const seen = await seenFrom(second, BEYOND.ipv4, { seconds: 5 });
  assert.equal(seen, undefined);
  const { by_primary: dropped = 0, ...others } = await lab.dropped();
  assert.ok(dropped > 0);
  assert.deepEqual(others, { by_secondary: 0, private: 0 });
  await lab.host.ensure(settings);
  assert.equal(await seenFrom(second, BEYOND.ipv4), PEER.ipv4);
});
