// However a stranger wraps a packet for a gateway, only a client's own
// packets leave it, with the gateway's address.
import assert from "node:assert/strict";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/wait.ts";
import { sendRaw } from "../netns/raw_packets.ts";
import {
  ADDRESSES,
  CLIENTS,
  type EgressLab,
  egressLab,
  PORT,
  shell,
} from "./egress_server_lab.ts";
import { taggedEcho, WRAPS } from "./stranger_packets.ts";

/** Another client, whose address somebody else may want. */
const SECOND = { ipv4: "10.1.1.3", ipv6: "fd01:1::3" } as const;

/** Who sends in whose name: the outer and the inner source. */
const SENDERS: readonly {
  readonly name: string;
  readonly outer: Readonly<Record<Family, string>>;
  readonly inner: Readonly<Record<Family, string>>;
}[] = [
  {
    name: "a stranger as itself",
    outer: ADDRESSES.stranger,
    inner: ADDRESSES.stranger,
  },
  {
    name: "a stranger as a client",
    outer: ADDRESSES.stranger,
    inner: ADDRESSES.client,
  },
  {
    name: "a client as a stranger",
    outer: ADDRESSES.client,
    inner: ADDRESSES.stranger,
  },
  {
    name: "a client as another client",
    outer: ADDRESSES.client,
    inner: SECOND,
  },
  {
    name: "a client as the gateway",
    outer: ADDRESSES.client,
    inner: ADDRESSES.gateway,
  },
  {
    name: "the outside as a client",
    outer: ADDRESSES.outside,
    inner: ADDRESSES.client,
  },
  {
    name: "the gateway itself as a client",
    outer: ADDRESSES.gateway,
    inner: ADDRESSES.client,
  },
];

Deno.test("no packet of a stranger leaves a gateway, and none in another's name, however it is wrapped", async () => {
  await using lab = await startLab();
  const names = new Map<number, string>();
  for (const family of FAMILIES) {
    const packets: Uint8Array[] = [];
    for (const { name, outer, inner } of SENDERS) {
      for (const [way, wrap] of WRAPS[family]) {
        const tag = 1000 + names.size;
        names.set(tag, `${family}: ${name}, ${way}`);
        const path = {
          source: inner[family],
          destination: ADDRESSES.outside[family],
        };
        const target = { address: ADDRESSES.gateway[family], port: PORT };
        packets.push(...wrap(taggedEcho(path, tag), outer[family], target));
      }
    }
    await send(lab, packets);
  }
  const seen = await seenAfterMarkers(lab);
  assert.deepEqual(
    seen.map(({ tag, source }) => `${names.get(tag)} (from ${source})`),
    [],
  );
  const ways = WRAPS.ipv4.length + WRAPS.ipv6.length;
  assert.ok(ways >= 34, `${ways} ways`);
  assert.equal(names.size, SENDERS.length * ways);
});

Deno.test("a client's own packets leave with the gateway's address or not at all, however they are wrapped", async () => {
  await using lab = await startLab();
  let tag = 1000;
  for (const family of FAMILIES) {
    const target = { address: ADDRESSES.gateway[family], port: PORT };
    const own = ADDRESSES.client[family];
    const path = { source: own, destination: ADDRESSES.outside[family] };
    await send(
      lab,
      WRAPS[family].flatMap(([, wrap]) =>
        wrap(taggedEcho(path, tag++), own, target)
      ),
    );
  }
  const seen = await seenAfterMarkers(lab);
  const gateway: readonly string[] = Object.values(ADDRESSES.gateway);
  assert.deepEqual(seen.filter(({ source }) => !gateway.includes(source)), []);
  // Some of them are what a path with a small MTU makes of a client's packets.
  assert.ok(seen.length >= 4, `only ${seen.length} got out`);
});

/** A gateway with its clients, and an eye outside on every echo request. */
async function startLab(): Promise<EgressLab> {
  await using stack = new AsyncDisposableStack();
  const lab = stack.use(await egressLab());
  const server = await lab.open();
  const second = Object.values(SECOND).map((text) => Address.parse(text));
  await server.setClients([...CLIENTS, ...second]);
  await shell(lab.outside, WATCH);
  stack.move();
  return lab;
}

const WATCH = `nft -f - <<END
table inet seen {
  set ipv4 { typeof ip saddr . icmp id; flags dynamic; size 65535; }
  set ipv6 { typeof ip6 saddr . icmpv6 id; flags dynamic; size 65535; }
  chain input {
    type filter hook prerouting priority -400
    icmp type echo-request add @ipv4 { ip saddr . icmp id }
    icmpv6 type echo-request add @ipv6 { ip6 saddr . icmpv6 id }
  }
}
END`;

/** Sends packets to the gateway by the link from the router to it, past all that a router might do about them. */
async function send(
  { router, gateway }: EgressLab,
  packets: readonly Uint8Array[],
): Promise<void> {
  const [row] = await gateway.ipJson("link", "show", "dev", "eth0");
  const mac = String(row?.["address"]);
  await sendRaw(router, { name: "gateway", mac }, packets);
}

/** What outside has got before a client's own packets, sent after all others, came there. */
async function seenAfterMarkers(
  lab: EgressLab,
): Promise<readonly { readonly source: string; readonly tag: number }[]> {
  const MARKER = 1;
  for (const family of FAMILIES) {
    const [, plain] = WRAPS[family][0] ?? [];
    assert.ok(plain);
    const own = ADDRESSES.client[family];
    const path = { source: own, destination: ADDRESSES.outside[family] };
    const target = { address: ADDRESSES.gateway[family], port: PORT };
    await send(lab, plain(taggedEcho(path, MARKER), own, target));
  }
  return await eventually("the markers outside", async () => {
    const text = await lab.outside.exec("nft", "list", "table", "inet", "seen");
    const seen = [...text.matchAll(/([0-9a-f.:]+) \. (\d+)/g)]
      .map(([, source = "", tag]) => ({ source, tag: Number(tag) }));
    const markers = seen.filter(({ tag }) => tag === MARKER);
    if (markers.length < FAMILIES.length) return undefined;
    return seen.filter(({ tag }) => tag !== MARKER);
  });
}
