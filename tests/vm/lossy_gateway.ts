// A gateway whose packets are lost by chance, and a coild that knows it.
import type { Family } from "../../lib/inet/mod.ts";
import { PROBE_SOURCE } from "../../lib/egress/kernel/path_probe.ts";
import { FOU_PORT } from "../../lib/names/mod.ts";
import { inNetns } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { addTable } from "./nft_tables.ts";

/** Each packet of the tunnel, to the gateway and from it, is lost with a chance of 30 %. */
const LOSSY = {
  name: "lossy",
  text: `table inet lossy {
  chain incoming {
    type filter hook prerouting priority -400
    udp dport ${FOU_PORT} meta random < 1288490188 drop
  }
  chain outgoing {
    type filter hook postrouting priority 400
    udp sport ${FOU_PORT} meta random < 1288490188 drop
  }
}`,
};

/** Bits of a UDP header, and where an IP header has its source. */
const UDP_BITS = 64;
const SOURCE_AT = { ipv4: 96, ipv6: 64 } as const;

/** What matches probes of a family, by the source inside. */
export function probesOf(family: Family): string {
  return tunnelled(family, "==");
}

/** What matches all else that comes by the tunnel. */
export function dataOf(family: Family): string {
  return tunnelled(family, "!=");
}

function tunnelled(family: Family, compare: "==" | "!="): string {
  const { bits, value } = PROBE_SOURCE[family];
  const at = UDP_BITS + SOURCE_AT[family];
  const inside = `@th,${at},${bits} ${compare} 0x${value.toString(16)}`;
  return `meta nfproto ${family} udp dport ${FOU_PORT} ${inside}`;
}

/** Of five probes of each family, known by the source inside, the first four are lost. */
const FOUR_OF_FIVE = {
  name: "taught",
  text: `table inet taught {
  counter probes4 { }
  counter probes6 { }
  chain incoming {
    type filter hook prerouting priority -400
    ${probesOf("ipv4")} counter name probes4 numgen inc mod 5 < 4 drop
    ${probesOf("ipv6")} counter name probes6 numgen inc mod 5 < 4 drop
  }
}`,
};
/** After so many, coild takes it that three of five are lost: more than are by chance afterwards. */
const PROBES = 100;

/**
 * Has packets of a gateway be lost by chance, once the client's coild knows that its probes are.
 * Before that, ten misses in a row are enough, which chance brings in some of a hundred runs
 * (docs/decisions/0033-probing-gateways.md). Returns what ends it.
 */
export async function loseByChance(
  { pod }: Gateway,
): Promise<() => Promise<void>> {
  const { netns } = pod.sandbox;
  const remove = await addTable(netns, FOUR_OF_FIVE);
  try {
    await eventually("coild to know that probes are lost", async () => {
      const counts = await Promise.all(
        ["probes4", "probes6"].map((name) => probesIn(netns, name)),
      );
      return counts.every((count) => count >= PROBES);
    });
  } finally {
    await remove();
  }
  return await addTable(netns, LOSSY);
}

async function probesIn(netns: string, name: string): Promise<number> {
  const list = ["list", "counter", "inet", FOUR_OF_FIVE.name, name];
  const text = await inNetns(netns, "nft", list);
  return Number(/packets (\d+)/.exec(text)?.[1]);
}
