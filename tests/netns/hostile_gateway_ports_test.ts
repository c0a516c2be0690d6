// What clients notice of a gateway's connection table: source ports that run
// out, and connections on which nothing is sent for long.
import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { awaitedLater, eventually } from "../lab/mod.ts";
import { connectIn, listenIn } from "./egress_client_lab.ts";
import { AT, gatewayTableLab, planOf, useTable } from "./gateway_table_lab.ts";
import { ipPacket, PROTOCOLS, udp } from "./raw_packets.ts";
import { netnsTest } from "./testing.ts";

/** The kernel translates source ports below 512 to others below 512, of which there are so many. */
const LOW_PORTS = 511;

netnsTest(
  "nat-full (cilium#18956): when all source ports to a destination are in use, no packet leaves with a client's address",
  async () => {
    await using lab = await gatewayTableLab();
    await useTable(lab, planOf().table);
    for (const family of ["ipv4", "ipv6"] as const) {
      const destination = AT.outside[family];
      const gateway = AT.gateway[family];
      const count = 400;
      const send = (source: string) =>
        lab.send(Array.from({ length: count }, (_, n) => {
          const path = { source, destination };
          return ipPacket(path, udp(path, [1 + n, 53]), {
            protocol: PROTOCOLS.udp,
          });
        }));
      await send(AT.client[family]);
      await eventually(
        "every packet of the first",
        async () => (await lab.seen()).includes(`${gateway} x ${count}`),
      );
      await send(AT.second[family]);
      await eventually(
        "the ports to be used up",
        async () => (await lab.seen()).includes(`${gateway} x ${LOW_PORTS}`),
      );
    }
    // What found no port was dropped.
    assert.deepEqual(
      await lab.seen(),
      [AT.gateway.ipv4, AT.gateway.ipv6].map((at) => `${at} x ${LOW_PORTS}`)
        .toSorted(),
    );
  },
);

netnsTest(
  "idle-session (cilium#23289): a gateway knows a TCP connection for more than 30 minutes without a packet",
  async () => {
    await using lab = await gatewayTableLab();
    await useTable(lab, planOf().table);
    using client = Netns.open(lab.client.path);
    using outside = Netns.open(lab.outside.path);
    for (const family of ["ipv4", "ipv6"] as const) {
      using listener = listenIn(outside, family);
      const accepting = awaitedLater(listener.accept());
      using _ours = await connectIn(client, {
        hostname: AT.outside[family],
        port: listener.addr.port,
      });
      using _theirs = await accepting;
      using conntrack = ConntrackSocket.open({ netns: lab.netns });
      const flows = await listFlows(conntrack, { family });
      const flow = flows.find(({ tcpState }) => tcpState === "ESTABLISHED");
      assert.ok((flow?.timeoutSeconds ?? 0) > 30 * 60, JSON.stringify(flows));
    }
  },
);
