import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import type { NftTable } from "../../lib/netlink/mod.ts";
import { eventually } from "../lab/wait.ts";
import {
  AT,
  type GatewayTableLab,
  gatewayTableLab,
  planOf,
  useTable,
} from "./gateway_table_lab.ts";
import {
  bytes,
  icmp,
  icmpv6,
  ipPacket,
  type Path,
  PROTOCOLS,
  udp,
} from "./raw_packets.ts";
import { netnsTest } from "./testing.ts";

const PATH = {
  ipv4: { source: AT.client.ipv4, destination: AT.outside.ipv4 },
  ipv6: { source: AT.client.ipv6, destination: AT.outside.ipv6 },
} as const;

/** A datagram that the gateway has to translate: it shows that what was sent before has come through. */
function marker(family: "ipv4" | "ipv6", port = 7): Uint8Array {
  const path: Path = PATH[family];
  const protocol = PROTOCOLS.udp;
  return ipPacket(path, udp(path, [4000, port]), { protocol });
}

/** Sends the packets and then one of each family that gets through; what outside has seen afterwards. */
async function seenAfter(
  lab: GatewayTableLab,
  packets: readonly Uint8Array[],
): Promise<string[]> {
  await lab.send([...packets, marker("ipv4"), marker("ipv6")]);
  return await eventually("the markers outside", async () => {
    const seen = await lab.seen();
    const through = FAMILIES.every((family) =>
      seen.some((line) => line.startsWith(`${AT.gateway[family]} `))
    );
    return through ? seen : undefined;
  });
}

const ONLY_MARKERS = [`${AT.gateway.ipv4} x 1`, `${AT.gateway.ipv6} x 1`];

const { table } = planOf();

/** What the kernel cannot do, or what fails, must not matter: either defence is enough. */
const DEFENCES: readonly (readonly [string, NftTable])[] = [
  ["", table],
  [", before Linux 5.6", without("leaving")],
  [", in any state of connection tracking", without("forwarding")],
];

function without(name: string): NftTable {
  return { ...table, chains: table.chains.filter((c) => c.name !== name) };
}

for (const [when, used] of DEFENCES) {
  netnsTest(
    `ICMPv6 about neighbours, routers and groups does not leave a gateway with the client's address${when}`,
    async () => {
      await using lab = await gatewayTableLab();
      await useTable(lab, used);
      // What the kernel keeps from connection tracking, with any hop limit and code.
      const types = [130, 131, 132, 133, 134, 135, 136, 143, 151];
      const packets = types.flatMap((type) =>
        [64, 255].map((ttl) =>
          ipPacket(PATH.ipv6, icmpv6(PATH.ipv6, type), {
            protocol: PROTOCOLS.icmpv6,
            ttl,
          })
        )
      );
      assert.deepEqual(await seenAfter(lab, packets), ONLY_MARKERS);
      await eventually("each of them dropped", async () => {
        const { invalid_ipv6 } = await lab.counted();
        return invalid_ipv6 === packets.length;
      });
    },
  );
}

netnsTest(
  "nothing that a client sends leaves a gateway with another source than the gateway's",
  async () => {
    await using lab = await gatewayTableLab();
    await useTable(lab, table);
    const seen = await seenAfter(lab, everyKind());
    const foreign = seen.filter((line) =>
      !Object.values(AT.gateway).some((own) => line.startsWith(`${own} `))
    );
    assert.deepEqual(foreign, []);
  },
);

/** Every protocol number, every ICMP type, and headers that connection tracking cannot read. */
function everyKind(): Uint8Array[] {
  const packets: Uint8Array[] = [];
  const body = new Uint8Array(24).fill(1);
  for (let n = 0; n < 256; n++) {
    for (const family of FAMILIES) {
      packets.push(ipPacket(PATH[family], body, { protocol: n }));
      packets.push(ipPacket(PATH[family], new Uint8Array(), { protocol: n }));
    }
    packets.push(ipPacket(PATH.ipv4, icmp(n), { protocol: PROTOCOLS.icmp }));
    packets.push(
      ipPacket(PATH.ipv6, icmpv6(PATH.ipv6, n), {
        protocol: PROTOCOLS.icmpv6,
      }),
    );
  }
  // Behind extension headers: the next header, its length in eights less one, padding.
  const { udp: datagram, icmpv6: messages } = PROTOCOLS;
  for (const outer of [PROTOCOLS.hopByHop, PROTOCOLS.options]) {
    for (const inner of [datagram, messages, PROTOCOLS.none, outer, 255]) {
      const header = Uint8Array.of(inner, 0, 1, 4, 0, 0, 0, 0);
      packets.push(ipPacket(
        PATH.ipv6,
        bytes(header, icmpv6(PATH.ipv6, 135)),
        { protocol: outer },
      ));
    }
  }
  // Parts of packets, with nothing to go with them.
  for (const fragment of [0x2000, 0x2001, 0x0001, 0x1fff]) {
    packets.push(
      ipPacket(PATH.ipv4, body, { protocol: datagram, id: fragment, fragment }),
    );
    const head = Uint8Array.of(datagram, 0, fragment >> 8, fragment & 255);
    packets.push(ipPacket(
      PATH.ipv6,
      bytes(head, Uint8Array.of(0, 0, 1, fragment & 255), body),
      { protocol: PROTOCOLS.fragment },
    ));
  }
  return packets;
}

netnsTest(
  "a connection from before the table does not go on with the client's address",
  async () => {
    await using lab = await gatewayTableLab();
    // Tracked all the same, as where somebody flushed the table for a moment.
    await lab.gateway.exec(
      "nft",
      "add table inet other; add chain inet other c { type filter hook forward priority 0; }; add rule inet other c ct state new",
    );
    await lab.send([marker("ipv4", 9), marker("ipv6", 9)]);
    await eventually("packets outside", async () => {
      const seen = await lab.seen();
      return seen.length === 2 ? seen : undefined;
    });
    const before = await lab.seen();
    assert.deepEqual(before, [
      `${AT.client.ipv4} x 1`,
      `${AT.client.ipv6} x 1`,
    ]);
    await useTable(lab, table);
    const seen = await seenAfter(lab, [marker("ipv4", 9), marker("ipv6", 9)]);
    assert.deepEqual(seen, [...before, ...ONLY_MARKERS].toSorted());
  },
);

netnsTest(
  "nothing from outside reaches a client that did not ask for it, tracked or not",
  async () => {
    await using lab = await gatewayTableLab();
    await useTable(lab, table);
    await lab.client.exec(
      "nft",
      'add table inet got; add chain inet got c { type filter hook prerouting priority -400; }; add rule inet got c ip6 saddr { ::, fe80::/10 } accept; add rule inet got c iifname "tun*" counter',
    );
    const path = { source: AT.outside.ipv6, destination: AT.client.ipv6 };
    const packets = [128, 130, 133, 134, 135, 136, 137, 143, 151, 1, 2, 3, 4]
      .map((type) =>
        ipPacket(path, icmpv6(path, type), {
          protocol: PROTOCOLS.icmpv6,
          ttl: 255,
        })
      );
    const path4 = { source: AT.outside.ipv4, destination: AT.client.ipv4 };
    packets.push(
      ...[0, 3, 5, 8, 11, 12].map((type) =>
        ipPacket(path4, icmp(type), { protocol: PROTOCOLS.icmp })
      ),
    );
    await lab.sendFromOutside(packets);
    await eventually("all of them counted", async () => {
      const { unsolicited_ipv4, unsolicited_ipv6 } = await lab.counted();
      return unsolicited_ipv4 === 6 && unsolicited_ipv6 === 13;
    });
    const got = await lab.client.exec("nft", "list", "table", "inet", "got");
    assert.match(got, /counter packets 0 bytes 0/);
  },
);
