// Nodes that translate the sources of their gateways, by real rules: what coild reports is what outside sees.
import assert from "node:assert/strict";
import type { TranslatedSource } from "../../lib/announce/mod.ts";
import { egressLabels } from "../../lib/api/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import { KubeClient, type V1Pod } from "../../lib/kube/mod.ts";
import { FakeTransport } from "../../lib/kube/testing.ts";
import { inNetns, Netns } from "../../lib/linux/mod.ts";
import { FOU_PORT } from "../../lib/names/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { SourceLook } from "../../roles/coild/gateways/source_look.ts";
import { listFlows } from "../lab/flows.ts";
import { keepFlows, netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const GATEWAY = { ipv4: "10.2.0.8", ipv6: "fd02::8" } as const;
const NODE = { ipv4: "192.0.2.1", ipv6: "2001:db8:1::1" } as const;
const OUTSIDE = { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" } as const;
/** The node translates it to the host outside. */
const SERVICE = "10.96.0.9";
const PORT = 8080;

const { signal } = new AbortController();

interface Site extends AsyncDisposable {
  readonly gateway: TempNetns;
  readonly node: TempNetns;
  readonly outside: TempNetns;
}

/** A gateway on a node, and a host outside that has routes to both. The node tracks connections, as with kube-proxy. */
async function makeSite(): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await tempNetns("gw"));
  const node = stack.use(await tempNetns("node"));
  await keepFlows(node);
  const outside = stack.use(await tempNetns("out"));
  for (const [name, end] of [["pod", gateway], ["wan", outside]] as const) {
    await node.ip(
      ...["link", "add", name, "type", "veth"],
      ...["peer", "name", "eth0", "netns", end.name],
    );
    await node.ip("link", "set", name, "up");
    await end.ip("link", "set", "eth0", "up");
  }
  await node.exec(
    "bash",
    "-ec",
    `for f in ipv4 ipv6; do echo 1 >/proc/sys/net/$f/conf/all/forwarding; done
     ip addr add ${NODE.ipv4}/32 dev wan; ip addr add ${NODE.ipv6}/128 dev wan nodad
     ip addr add fe80::1/64 dev wan nodad; ip addr add fe80::2/64 dev pod nodad
     ip route add ${GATEWAY.ipv4} dev pod; ip route add ${GATEWAY.ipv6} dev pod
     ip route add 203.0.113.0/24 dev wan; ip route add 2001:db8:9::/64 dev wan
     nft "add table inet t; add chain inet t pre { type nat hook prerouting priority dstnat; }
       add rule inet t pre ip daddr ${SERVICE} dnat ip to ${OUTSIDE.ipv4}"`,
  );
  const address = (
    end: TempNetns,
    own: typeof OUTSIDE | typeof GATEWAY,
    via: string,
  ) =>
    end.exec(
      "bash",
      "-ec",
      `ip addr add ${own.ipv4}/32 dev eth0; ip addr add ${own.ipv6}/128 dev eth0 nodad
       ip route add 192.0.2.0/24 dev eth0; ip route add default via ${NODE.ipv4} dev eth0
       ip route add default via ${via} dev eth0`,
    );
  await address(gateway, GATEWAY, "fe80::2");
  await address(outside, OUTSIDE, "fe80::1");
  const moved = stack.move();
  return {
    gateway,
    node,
    outside,
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

/** Connects from the gateway, for a moment, and returns the source that the host outside sees. */
async function seenFrom(
  { gateway, outside }: Site,
  host: string,
): Promise<string> {
  const hostname = host.includes(":") ? OUTSIDE.ipv6 : OUTSIDE.ipv4;
  using netns = Netns.open(outside.path);
  using listener = inNetns(netns, () => Deno.listen({ hostname, port: PORT }));
  const asked = gateway.exec("bash", "-c", `: 3<>/dev/tcp/${host}/${PORT}`);
  using accepted = await listener.accept();
  await asked;
  return accepted.remoteAddr.hostname;
}

function conntrackOf({ node }: Site): ConntrackSocket {
  using netns = Netns.open(node.path);
  return ConntrackSocket.open({ netns });
}

/** Sends a datagram from the gateway, until the node tracks it: what is sent may still be on its way through the kernel. */
async function datagramTo(site: Site, port: number): Promise<void> {
  const target = `/dev/udp/${OUTSIDE.ipv4}/${port}`;
  await site.gateway.exec("bash", "-c", `echo >${target}`);
  await using conntrack = conntrackOf(site);
  await untilPasses(async () => {
    const flows = await listFlows(conntrack, { family: "ipv4" });
    const ports = flows.map((flow) => flow.originalDestinationPort);
    assert.ok(ports.includes(port), `${ports}`);
  });
}

/** coild's look on that node: what it reports to the gateway of an Egress for these destinations. */
async function look(
  site: Site,
  destinations: readonly string[] = ["0.0.0.0/0", "::/0"],
): Promise<string[]> {
  const reported: TranslatedSource[] = [];
  const pod: V1Pod = {
    metadata: { namespace: "nat", name: "x", labels: egressLabels("internet") },
    status: { podIPs: [{ ip: GATEWAY.ipv4 }, { ip: GATEWAY.ipv6 }] },
  };
  const body = { spec: { destinations } };
  await new SourceLook({
    client: new KubeClient(new FakeTransport(() => ({ status: 200, body }))),
    pods: { list: () => [pod] },
    port: FOU_PORT,
    announcer: {
      reportSources(target, { translated }) {
        reported.push(...translated);
        return Promise.resolve({ ...target, result: "accepted" });
      },
    },
    open: () => conntrackOf(site),
  }).look(signal);
  return reported.map(({ source, seenAs, destination }) =>
    `${source} as ${seenAs} to ${destination}`
  );
}

const REPORTS = [
  `${GATEWAY.ipv4} as ${NODE.ipv4} to ${OUTSIDE.ipv4}`,
  `${GATEWAY.ipv6} as ${NODE.ipv6} to ${OUTSIDE.ipv6}`,
];

netnsTest(
  "coild reports that the node masquerades a gateway by a rule of ip-masq-agent, as outside sees it",
  async () => {
    await using site = await makeSite();
    assert.deepEqual(await look(site), [], "before the first connection");
    assert.equal(await seenFrom(site, OUTSIDE.ipv4), GATEWAY.ipv4);
    assert.equal(await seenFrom(site, OUTSIDE.ipv6), GATEWAY.ipv6);
    assert.deepEqual(await look(site), [], "without a rule");
    for (const iptables of ["iptables", "ip6tables"]) {
      const inside = iptables === "iptables" ? "10.0.0.0/8" : "fd00::/8";
      await site.node.exec(
        ...[iptables, "-w", "-t", "nat", "-A", "POSTROUTING"] as const,
        ...["!", "-d", inside, "-j", "MASQUERADE"],
      );
    }
    assert.equal(await seenFrom(site, OUTSIDE.ipv4), NODE.ipv4);
    assert.equal(await seenFrom(site, OUTSIDE.ipv6), NODE.ipv6);
    assert.deepEqual(await look(site), REPORTS);
    assert.deepEqual(await look(site, ["2001:db8:9::/64"]), REPORTS.slice(1));
    assert.deepEqual(await look(site, ["198.51.100.0/24"]), []);
  },
);

netnsTest(
  "coild reports nothing of a Service that the node masquerades, and nothing of tunnels to clients",
  async () => {
    await using site = await makeSite();
    await site.node.exec(
      "nft",
      `add chain inet t post { type nat hook postrouting priority srcnat; }
     add rule inet t post ct original ip daddr ${SERVICE} masquerade
     add rule inet t post udp dport { 53, ${FOU_PORT} } snat ip to ${NODE.ipv4}`,
    );
    assert.equal(await seenFrom(site, SERVICE), NODE.ipv4);
    await datagramTo(site, FOU_PORT);
    assert.deepEqual(await look(site), []);
    await datagramTo(site, 53);
    assert.deepEqual(await look(site), REPORTS.slice(0, 1));
  },
);

netnsTest(
  "coild reports a gateway until its translated connections are gone",
  async () => {
    await using site = await makeSite();
    await site.node.exec(
      "nft",
      `add table ip m; add chain ip m post { type nat hook postrouting priority srcnat; }
     add rule ip m post ip saddr ${GATEWAY.ipv4} masquerade`,
    );
    assert.equal(await seenFrom(site, OUTSIDE.ipv4), NODE.ipv4);
    await site.node.exec("nft", "delete table ip m");
    assert.deepEqual(await look(site), REPORTS.slice(0, 1));
    await using conntrack = conntrackOf(site);
    await conntrack.deleteWhere(() => true);
    assert.equal(await seenFrom(site, OUTSIDE.ipv4), GATEWAY.ipv4);
    assert.deepEqual(await look(site), []);
  },
);
