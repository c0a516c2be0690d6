// What CHECK says of a client with tunnels that a program in the pod has damaged,
// and that it is mended.
import assert from "node:assert/strict";
import { inspectClient } from "../../lib/egress/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  type ClientLab,
  clientLab,
  EVERYWHERE,
  gatewayFor,
  planOf,
} from "./egress_client_lab.ts";
import { ADDRESSES, shell } from "./egress_server_lab.ts";

const EGRESS = gatewayFor(EVERYWHERE);
const TUNNEL = "fou4_0a60000a";

/** A command of a sidecar, and what is wrong then; of many things the first. */
const DAMAGES: readonly (readonly [string, readonly RegExp[]])[] = [
  [`ip link delete ${TUNNEL}`, [
    /^link "fou4_0a60000a" is missing$/,
    /^ip route "default table 118" is missing$/,
  ]],
  [`ip link set ${TUNNEL} down`, [
    /^link "fou4_0a60000a" was changed$/,
    /^ip route "default dev fou4_0a60000a table 118" is missing$/,
  ]],
  ["ip link delete coil_ipip6", [/^link "coil_ipip6" is missing$/]],
  [`ip link set ${TUNNEL} mtu 1000`, [/^link "\S+" was changed$/]],
  ["ip rule del priority 2100", [
    /^ip rule "2100: from all lookup 118" is missing$/,
  ]],
  [`ip route del default dev ${TUNNEL} table 118`, [
    /^ip route "default dev fou4_0a60000a table 118" is missing$/,
  ]],
  ["nft delete table inet coil", [/^nft table "inet coil" is missing$/]],
  ["nft flush table inet coil", [
    /^nft table "inet coil" was changed: .*add rule/,
  ]],
  ["nft flush set inet coil senders4", [
    /^nft table "inet coil" was changed: .*add 2 elements to set "senders4"/,
  ]],
  ["ip fou del port 5555", [/^ipv4 FoU port 5555 is missing$/]],
  ["sysctl -qw net.ipv4.conf.all.rp_filter=1", [
    /^sysctl "net\/ipv4\/conf\/all\/rp_filter" is 1: replies/,
  ]],
  [
    "for each in default coil_ipip4 eth0; do echo 1 > /proc/sys/net/ipv4/conf/$each/rp_filter; done",
    [
      /^sysctl "net\/ipv4\/conf\/default\/rp_filter" is 1/,
      /^sysctl "net\/ipv4\/conf\/coil_ipip4\/rp_filter" is 1/,
      /^sysctl "net\/ipv4\/conf\/eth0\/rp_filter" is 1/,
    ],
  ],
];

Deno.test("what a sidecar damages of a client is named as ip and nft would, and mended", async (t) => {
  await using lab = await clientLab({ servers: true });
  const { netns } = lab;
  const plan = planOf([EGRESS]);
  await lab.apply([EGRESS]);
  assert.deepEqual(await inspectClient(plan, { netns }), []);
  const state = await lab.state();
  for (const [command, expected] of DAMAGES) {
    await t.step(command, async () => {
      await lab.apply([EGRESS]);
      await shell(lab.client, command);
      const problems = await inspectClient(plan, { netns });
      assert.equal(problems.length, expected.length, problems.join("\n"));
      expected.forEach((text, i) => assert.match(problems[i] ?? "", text));
      await lab.apply([EGRESS]);
      assert.deepEqual(await inspectClient(plan, { netns }), []);
      assert.equal(await lab.state(), state);
      await reachesOutside(lab);
    });
  }
});

Deno.test("of a client in originating-only mode too", async () => {
  await using lab = await clientLab({ servers: true });
  const { netns } = lab;
  const changes = { originatingOnly: true };
  const plan = planOf([EGRESS], changes);
  await lab.apply([EGRESS], changes);
  assert.deepEqual(await inspectClient(plan, { netns }), []);
  const state = await lab.state();
  await shell(
    lab.client,
    "ip rule del priority 1000; ip -6 rule del priority 1000; nft flush chain inet coil answers",
  );
  const problems = await inspectClient(plan, { netns });
  assert.match(problems[0] ?? "", /^ip rule "1000: from all fwmark .*missing$/);
  assert.match(problems[1] ?? "", /^ip -6 rule "1000: from all fwmark/);
  assert.match(
    problems[2] ?? "",
    /^nft table "inet coil" was changed: to restore it, /,
  );
  assert.equal(problems.length, 3);
  await lab.apply([EGRESS], changes);
  assert.equal(await lab.state(), state);
});

async function reachesOutside({ client, lab }: ClientLab): Promise<void> {
  for (const family of FAMILIES) {
    const seen = await lab.ask(client, family, 1_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
  }
}
