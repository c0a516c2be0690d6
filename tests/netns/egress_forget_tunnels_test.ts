import assert from "node:assert/strict";
import { forgetTunnels } from "../../lib/egress/kernel/forget_tunnels.ts";
import { Address } from "../../lib/inet/mod.ts";
import { inNetns, Netns } from "../../lib/linux/mod.ts";
import type { Link } from "../../lib/netlink/mod.ts";
import { keepFlows, netnsTest, tempNetns } from "./testing.ts";

const LOCAL = "10.1.2.3";
const PORT = 5555;

/** A tunnel as it is listed; only how its packets leave matters. */
function tunnelTo(remote: string, sourcePort: number | "auto"): Link {
  const link: Partial<Link> = {
    tunnel: {
      kind: "ipip",
      local: Address.parse(LOCAL),
      remote: Address.parse(remote),
      encap: { sourcePort, destinationPort: PORT, checksum: true },
    },
  };
  return link as Link;
}

netnsTest(
  "forgetTunnels() ends what the node tracks of tunnels with a fixed port, and nothing else",
  async () => {
    await using node = await tempNetns("node");
    using netns = Netns.open(node.path);
    await keepFlows(node);
    await node.ip("link", "add", "out", "type", "bridge");
    await node.ip("address", "add", `${LOCAL}/24`, "dev", "out");
    await node.ip("link", "set", "out", "up");
    await node.ip("route", "add", "default", "dev", "out");
    await node.exec(
      "nft",
      "add table inet t; add chain inet t out { type filter hook output priority 0; }; " +
        "add rule inet t out ct state new",
    );
    const remotes = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    for (const remote of remotes) {
      await node.ip(
        ...["neighbor", "add", remote, "lladdr", "02:00:00:00:00:01"],
        ...["dev", "out"],
      );
    }
    using socket = inNetns(netns, () => {
      const at = { transport: "udp", hostname: LOCAL, port: PORT } as const;
      const udp = Deno.listenDatagram(at);
      return { udp, [Symbol.dispose]: () => udp.close() };
    });
    for (const hostname of remotes) {
      const to = { transport: "udp", hostname, port: PORT } as const;
      await socket.udp.send(new Uint8Array(1), to);
    }
    const tracked = async () =>
      [...(await node.exec("cat", "/proc/net/nf_conntrack"))
        .matchAll(/src=10\.1\.2\.3 dst=(192\.0\.2\.\d)/g)].map(([, to]) => to)
        .sort();
    assert.deepEqual(await tracked(), remotes);
    const [first = "", second = ""] = remotes;
    const gone = [
      tunnelTo(first, PORT),
      tunnelTo(second, "auto"),
      tunnelTo("192.0.2.9", PORT),
    ];
    // Its socket is open before it waits for anything.
    const { done } = inNetns(netns, () => ({ done: forgetTunnels(gone) }));
    await done;
    assert.deepEqual(await tracked(), remotes.slice(1));
  },
);
