import assert from "node:assert/strict";
import { ownPortsFrom } from "../../lib/egress/plan/own_ports.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

netnsTest(
  "ownPortsFrom() is the first port of the namespace's own connections",
  async () => {
    await using pod = await tempNetns("pod");
    const range = "net.ipv4.ip_local_port_range=40000 50000";
    await pod.exec("sysctl", "-qw", range);
    using netns = Netns.open(pod.path);
    assert.equal(ownPortsFrom(netns), 40_000);
  },
);
