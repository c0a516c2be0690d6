// What a node's kernel says about addresses of pods, for coil connectivity test.
import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import { look } from "../../roles/coil_probe/look.ts";
import { netnsTest, tempNetns } from "./testing.ts";

netnsTest(
  "a probe sees a pod's route, whether it is taken, and the way to others",
  async () => {
    await using node = await tempNetns("look");
    using netns = Netns.open(node.path);
    for (
      const line of [
        "link add eth0 mtu 1400 up type veth peer name peer0",
        "link set peer0 up",
        "link add veth1 up type veth peer name pod1",
        "link set pod1 up",
        "address add 192.0.2.1/24 dev eth0",
        "route add 10.0.2.0/27 via 192.0.2.2",
        "route add 10.0.0.2 dev veth1 table 116",
        "-6 route add fd00::2 dev veth1 table 116",
      ]
    ) await node.ip(...line.split(" "));
    const addresses = ["10.0.0.2", "fd00::2", "10.0.2.1", "203.0.113.7"];
    const seen = () => look(addresses, { netns });
    const pod = { link: "veth1", mtu: 1500, gateway: undefined };
    const eth0 = { link: "eth0", mtu: 1400 };
    const toBlock = { ...eth0, gateway: "192.0.2.2", isDefault: false };

    // Without the rule the pod's routes are there, and not taken.
    assert.deepEqual((await seen()).addresses, {
      "10.0.0.2": { podLink: "veth1", way: undefined },
      "fd00::2": { podLink: "veth1", way: undefined },
      "10.0.2.1": { podLink: undefined, way: toBlock },
      "203.0.113.7": { podLink: undefined, way: undefined },
    });

    await node.ip("rule", "add", "priority", "2000", "lookup", "116");
    await node.ip("-6", "rule", "add", "priority", "2000", "lookup", "116");
    await node.ip("route", "add", "default", "via", "192.0.2.254");
    const byDefault = { ...eth0, gateway: "192.0.2.254", isDefault: true };
    assert.deepEqual((await seen()).addresses, {
      "10.0.0.2": { podLink: "veth1", way: { ...pod, isDefault: false } },
      "fd00::2": { podLink: "veth1", way: { ...pod, isDefault: false } },
      "10.0.2.1": { podLink: undefined, way: toBlock },
      "203.0.113.7": { podLink: undefined, way: byDefault },
    });

    await node.ip("route", "replace", "unreachable", "10.0.2.0/27");
    assert.equal((await seen()).addresses["10.0.2.1"]?.way, undefined);

    assert.deepEqual((await seen()).forwards, []);
    await node.exec("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1");
    assert.deepEqual((await seen()).forwards, ["ipv6"]);
  },
);
