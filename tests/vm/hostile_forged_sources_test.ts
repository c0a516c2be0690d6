import assert from "node:assert/strict";
import {
  type Datagram,
  discoveryFrame,
  type Ends,
  type Frame,
  udpFrame,
  udpPacket,
} from "../lab/frames.ts";
import { inNetns } from "../lab/mod.ts";
import { RawLink } from "../lab/raw_link.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import { egressTest } from "./e2e_stage.ts";
import {
  OUTSIDE,
  OUTSIDE_NETWORKS,
  VM_FAMILIES,
  type VmFamily,
  type VmNode,
} from "./topology.ts";
import { askTcp, askUdp } from "./traffic.ts";

const FOU_PORT = 5555;
/** Nobody sends there but these tests. */
const MARKED_PORT = 7999;
/** Of a socket that waits in a client. */
const CLIENT_PORT = 7001;

type Inner = Omit<Datagram, keyof Ends>;

/** A program with `NET_RAW` in a pod. */
class Hostile implements Disposable {
  readonly pod: Client["pod"];
  readonly ends: Ends;
  readonly #link: RawLink;

  private constructor(pod: Client["pod"], ends: Ends, link: RawLink) {
    this.pod = pod;
    this.ends = ends;
    this.#link = link;
  }

  static async in(pod: Client["pod"]): Promise<Hostile> {
    const { netns } = pod.sandbox;
    const rows = async (...args: string[]) =>
      JSON.parse(await inNetns(netns, "ip", ["-j", ...args])) as Record<
        string,
        unknown
      >[];
    const [link] = await rows("link", "show", "eth0");
    const neighbours = await rows("-4", "neigh", "show", "dev", "eth0");
    const gateway = neighbours.find(({ dst }) => dst === "169.254.1.1");
    const ends = {
      fromMac: String(link?.["address"]),
      toMac: String(gateway?.["lladdr"]),
    };
    const path = `/run/netns/${netns}`;
    return new Hostile(
      pod,
      ends,
      new RawLink(path, Number(link?.["ifindex"])),
    );
  }

  address(family: VmFamily): string {
    return addressOf(this.pod.addresses, family);
  }

  send(frame: Frame): void {
    this.#link.send(frame);
  }

  sendPlain(datagram: Inner): void {
    this.send(udpFrame({ ...this.ends, ...datagram }));
  }

  /** A datagram in a tunnel, both with any source. */
  sendTunnelled(
    { from, to }: { readonly from: string; readonly to: string },
    inner: Inner,
  ): void {
    const payload = udpPacket(inner);
    this.sendPlain({ source: from, destination: to, port: FOU_PORT, payload });
  }

  [Symbol.dispose](): void {
    this.#link[Symbol.dispose]();
  }
}

function addressOf(addresses: readonly string[], family: VmFamily): string {
  const found = addresses.find((address) =>
    address.includes(":") === (family === "ipv6")
  );
  assert.ok(found !== undefined, `no ${family} address among ${addresses}`);
  return found;
}

/** The gateway's own address, and its Service's. */
function gatewayAddresses(cluster: EgressCluster, family: VmFamily): string[] {
  const [gateway] = cluster.gatewaysOf("near");
  const own = addressOf(gateway?.pod.addresses ?? [], family);
  const service = cluster.proxy.translations.find(({ usable }) =>
    usable.includes(own)
  );
  return [own, service?.address ?? ""];
}

interface Counters {
  readonly nftables: readonly {
    readonly counter?: { readonly name: string; readonly packets: number };
  }[];
}

/** The sum of a namespace's counters whose names begin so. */
async function counted(netns: string, name: string): Promise<number> {
  const text = await inNetns(netns, "nft", ["-j", "list", "counters"]);
  const { nftables } = JSON.parse(text) as Counters;
  return nftables.reduce(
    (sum, { counter }) =>
      sum + (counter?.name.startsWith(name) ? counter.packets : 0),
    0,
  );
}

/** Runs what a pod of the node tries, and fails unless the node has dropped just as many packets as were sent. */
async function dropped(
  node: VmNode,
  attack: () => number,
): Promise<void> {
  const before = await counted(node.netns, "forged");
  const sent = attack();
  await eventually(`${node.name} to drop ${sent} packets`, async () => {
    const now = await counted(node.netns, "forged") - before;
    assert.ok(now <= sent, `${now} of ${sent} packets were dropped`);
    return now === sent;
  });
}

/** Marked datagrams that came outside. */
function marked(): Promise<number> {
  return counted("outside", "marked");
}

/** What comes to a socket in the client while the function runs, until the text that ends it. */
async function heard(
  { sockets }: Client,
  { family, until, send }: {
    readonly family: VmFamily;
    readonly until: string;
    readonly send: () => Promise<void>;
  },
): Promise<string[]> {
  const any = family === "ipv4" ? "0.0.0.0" : "::";
  const socket = sockets.listenDatagram(any, CLIENT_PORT);
  try {
    await send();
    const texts: string[] = [];
    while (texts.at(-1) !== until) {
      const [data, peer] = await socket.receive();
      const text = new TextDecoder().decode(data);
      texts.push(`${text} from ${(peer as Deno.NetAddr).hostname}`);
    }
    return texts;
  } finally {
    socket.close();
  }
}

let client: Client;
/** Pods that are no clients: one beside the client, one on the other node. */
let strangers: Hostile[] = [];

egressTest("forged sources and egress", {
  setUp: async (cluster) => {
    await cluster.createEgress("near", {
      destinations: VM_FAMILIES.map((family) => OUTSIDE_NETWORKS[family].near),
      fouSourcePortAuto: true,
    });
    client = await cluster.createClient({ name: "client", egresses: "near" });
    strangers = [];
    for (const node of [0, 1]) {
      const { pod } = await cluster.createClient({
        name: `stranger${node}`,
        node,
      });
      strangers.push(await Hostile.in(pod));
    }
    await inNetns(cluster.topology.outside, "nft", [
      `table inet marked { counter marked { }; chain pre { type filter hook prerouting priority -310; udp dport ${MARKED_PORT} counter name marked drop; }; }`,
    ]);
  },
  scenarios: {
    "a pod that is no client does not get out in a client's name": async (
      cluster,
    ) => {
      const before = await marked();
      for (const stranger of strangers) {
        await dropped(stranger.pod.node, () => {
          let sent = 0;
          for (const family of VM_FAMILIES) {
            const victim = addressOf(client.pod.addresses, family);
            const inner = {
              source: victim,
              port: MARKED_PORT,
              payload: "out",
              destination: OUTSIDE[family].near,
            };
            for (const to of gatewayAddresses(cluster, family)) {
              stranger.sendTunnelled({ from: victim, to }, inner);
              sent++;
            }
          }
          return sent;
        });
      }
      assert.equal(await marked(), before);
      // The same packets, sent by the client itself, get out.
      using own = await Hostile.in(client.pod);
      for (const family of VM_FAMILIES) {
        const source = own.address(family);
        const [to = ""] = gatewayAddresses(cluster, family);
        own.sendTunnelled({ from: source, to }, {
          source,
          port: MARKED_PORT,
          payload: "out",
          destination: OUTSIDE[family].near,
        });
      }
      await eventually(
        "the client's own packets outside",
        async () => await marked() === before + 2,
      );
    },

    "a pod does not get out with the gateway's address": async (cluster) => {
      const before = await marked();
      const plain = (source: string, family: VmFamily) => ({
        source,
        port: MARKED_PORT,
        payload: "out",
        destination: OUTSIDE[family].near,
      });
      for (const stranger of strangers) {
        await dropped(stranger.pod.node, () => {
          for (const family of VM_FAMILIES) {
            const [source = ""] = gatewayAddresses(cluster, family);
            stranger.sendPlain(plain(source, family));
          }
          return VM_FAMILIES.length;
        });
      }
      assert.equal(await marked(), before);
      const [gateway] = cluster.gatewaysOf("near");
      assert.ok(gateway);
      using own = await Hostile.in(gateway.pod);
      for (const family of VM_FAMILIES) {
        own.sendPlain(plain(own.address(family), family));
      }
      await eventually(
        "the gateway's own packets outside",
        async () => await marked() === before + 2,
      );
    },

    "a pod does not answer a client in the name of a server outside": async (
      cluster,
    ) => {
      const [gateway] = cluster.gatewaysOf("near");
      assert.ok(gateway);
      using own = await Hostile.in(gateway.pod);
      for (const family of VM_FAMILIES) {
        const victim = addressOf(client.pod.addresses, family);
        const server = OUTSIDE[family].near;
        const answer = (source: string, payload: string) => ({
          source,
          payload,
          destination: victim,
          port: CLIENT_PORT,
        });
        const texts = await heard(client, {
          family,
          until: `real from ${server}`,
          async send() {
            for (const stranger of strangers) {
              await dropped(stranger.pod.node, () => {
                const froms = gatewayAddresses(cluster, family);
                for (const from of froms) {
                  const tunnel = { from, to: victim };
                  stranger.sendTunnelled(tunnel, answer(server, "forged"));
                  stranger.sendTunnelled(tunnel, answer(victim, "as itself"));
                }
                stranger.sendPlain(answer(server, "plain"));
                return froms.length * 2 + 1;
              });
            }
            const from = own.address(family);
            own.sendTunnelled({ from, to: victim }, answer(server, "real"));
          },
        });
        assert.deepEqual(texts, [`real from ${server}`]);
      }
    },

    "what a stranger sends in its own name is counted by the gateway and the client":
      async (cluster) => {
        const [gateway] = cluster.gatewaysOf("near");
        for (
          const [target, netns] of [
            [gateway?.pod.addresses, gateway?.pod.sandbox.netns ?? ""],
            [client.pod.addresses, client.pod.sandbox.netns],
          ] as const
        ) {
          const before = await counted(netns, "foreign");
          for (const family of VM_FAMILIES) {
            for (const stranger of strangers) {
              const source = stranger.address(family);
              const to = addressOf(target ?? [], family);
              stranger.sendTunnelled({ from: source, to }, {
                source,
                port: MARKED_PORT,
                payload: "stranger",
                destination: OUTSIDE[family].near,
              });
            }
          }
          await eventually(
            "all of them to be counted",
            async () => await counted(netns, "foreign") === before + 4,
          );
        }
      },

    "a flood of neighbour solicitations leaves the node's egress as it is":
      async (cluster) => {
        const [stranger] = strangers;
        assert.ok(stranger);
        const { ends } = stranger;
        for (let n = 1; n <= 2_000; n++) {
          const source = `fe80::dead:${n.toString(16)}`;
          stranger.send(
            discoveryFrame({
              ...ends,
              source,
              kind: "solicit",
              target: "fe80::1",
              destination: "ff02::1:ff00:1",
            }),
          );
        }
        const text = await inNetns(cluster.nodes[0].netns, "ip", [
          ...["-6", "neigh", "show", "nud", "all"],
        ]);
        assert.ok(!text.includes("fe80::dead"), text);
        for (const family of VM_FAMILIES) {
          const near = gatewayAddresses(cluster, family);
          const address = OUTSIDE[family].near;
          assert.ok(near.includes(await askTcp(client.sockets, address)));
          const answer = await askUdp(client.sockets, address);
          assert.ok(answer !== undefined && near.includes(answer.source));
        }
        for (const each of strangers) each[Symbol.dispose]();
      },
  },
});
