import assert from "node:assert/strict";
import { type ClientGateway, planClient } from "../../lib/egress/mod.ts";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { KERNEL_PLANE } from "../../roles/coild/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

const DESTINATIONS = ["0.0.0.0/0", "10.1.0.0/16", "2001:db8::/32", "::/0"];

netnsTest(
  "the kernel tells what a client refuses, when nothing else does",
  async () => {
    await using pod = await tempNetns("plane");
    await pod.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0");
    await pod.ip("link", "set", "eth0", "up");
    await pod.ip("address", "add", "10.0.0.2/24", "dev", "eth0");
    await pod.ip("-6", "address", "add", "fd02::2/64", "dev", "eth0", "nodad");
    using netns = Netns.open(pod.path);
    const gateway: ClientGateway = {
      name: "nat/gone",
      service: {},
      destinations: DESTINATIONS.map((text) => Prefix.parse(text)),
      sourcePortAuto: false,
      senders: [],
      available: [],
      failurePolicy: "Closed",
    };
    const plan = planClient({
      addresses: {
        ipv4: Address.parse("10.0.0.2"),
        ipv6: Address.parse("fd02::2"),
      },
      ifname: "eth0",
      mtu: 0,
      port: 5555,
      originatingOnly: false,
      gateways: [gateway],
    });
    assert.deepEqual(await KERNEL_PLANE.refused({ netns }), []);
    await KERNEL_PLANE.apply(plan, { netns });
    const refused = await KERNEL_PLANE.refused({ netns });
    assert.deepEqual(refused.map(String).sort(), DESTINATIONS);
    assert.deepEqual(await KERNEL_PLANE.inspect(plan, { netns }), []);
    assert.equal(await KERNEL_PLANE.clear({ netns }), true);
    assert.notDeepEqual(await KERNEL_PLANE.inspect(plan, { netns }), []);
    assert.deepEqual(await KERNEL_PLANE.refused({ netns }), []);
  },
);
