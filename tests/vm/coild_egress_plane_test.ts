import assert from "node:assert/strict";
import { planClient } from "../../lib/egress/mod.ts";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import { KERNEL_PLANE } from "../../roles/coild/mod.ts";
import { tempNetns } from "../netns/testing.ts";

openLibc(); // stays open, so it must not be counted as the test's leak

for (const originatingOnly of [false, true]) {
  const mode = originatingOnly ? "originating-only mode" : "its usual mode";
  Deno.test(`the kernel tells what a client with tunnels refuses, in ${mode}`, async () => {
    await using pod = await tempNetns("plane");
    await pod.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0");
    await pod.ip("link", "set", "eth0", "up");
    await pod.ip("address", "add", "10.0.0.2/24", "dev", "eth0");
    await pod.ip("route", "add", "default", "via", "10.0.0.1");
    using netns = Netns.open(pod.path);
    const common = { sourcePortAuto: true, senders: [] } as const;
    const service = { ipv4: Address.parse("10.96.0.9") };
    const plan = planClient({
      addresses: { ipv4: Address.parse("10.0.0.2") },
      ifname: "eth0",
      mtu: 0,
      port: 5555,
      originatingOnly,
      gateways: [
        {
          ...common,
          service,
          name: "nat/a",
          available: ["ipv4"],
          destinations: [Prefix.parse("192.0.2.0/24")],
          failurePolicy: "Closed",
        },
        {
          ...common,
          service: {},
          name: "nat/b",
          available: [],
          destinations: [Prefix.parse("0.0.0.0/0")],
          failurePolicy: "Closed",
        },
        {
          ...common,
          service,
          name: "nat/c",
          available: ["ipv4"],
          destinations: [Prefix.parse("198.51.100.0/24")],
          failurePolicy: "Open",
        },
      ],
    });
    await KERNEL_PLANE.prepare(plan.tunnelFamilies);
    await KERNEL_PLANE.apply(plan, { netns });
    const refused = await KERNEL_PLANE.refused({ netns });
    assert.deepEqual(refused.map(String).sort(), ["0.0.0.0/0", "192.0.2.0/24"]);
    assert.equal(await KERNEL_PLANE.clear({ netns }), true);
    assert.deepEqual(await KERNEL_PLANE.refused({ netns }), []);
  });
}
