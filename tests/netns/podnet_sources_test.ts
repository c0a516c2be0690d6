import assert from "node:assert/strict";
import { inNetns, Netns, writeSysctl } from "../../lib/linux/mod.ts";
import { NODE_NFT_TABLE } from "../../lib/names/mod.ts";
import { type Request, RouteSocket } from "../../lib/netlink/mod.ts";
import { HuskReaper, isLinkOf } from "../../lib/podnet/links/husk_reaper.ts";
import {
  linkLocalOf,
  type PodNetworkOptions,
  type PodSources,
  type SetupResult,
  SourceTable,
  SourceTableError,
} from "../../lib/podnet/mod.ts";
import {
  arpRequest,
  discoveryFrame,
  type Frame,
  udpFrame,
} from "../lab/frames.ts";
import { eventually } from "../lab/mod.ts";
import { RawLink } from "../lab/raw_link.ts";
import {
  addPod,
  addressesOf,
  NODE,
  ping,
  type TestNode,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

const PORT = 7000;
const FLOOD = 300;
/** Loose, as systemd sets it on several distributions: it overrides what each link says. */
const LOOSE = 2;

/** A node with its table, and what is opened of it. */
interface Guarded extends AsyncDisposable {
  readonly node: TestNode;
  readonly table: SourceTable;
}

async function guardedNode(
  options: PodNetworkOptions = {},
): Promise<Guarded> {
  await using undo = new AsyncDisposableStack();
  const node = undo.use(await testNode(options));
  await node.net.init();
  const hostNetns = undo.use(Netns.open(node.host.path));
  // A default route makes a loose check take any source.
  await node.host.ip("route", "add", "default", "via", "10.20.30.1");
  await node.host.ip("-6", "route", "add", "default", "via", "fd10::1");
  writeSysctl("net/ipv4/conf/all/rp_filter", LOOSE, { netns: hostNetns });
  const table = undo.use(new SourceTable({ hostNetns }));
  const resources = undo.move();
  return {
    node,
    table,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

interface Pod {
  readonly pod: TempNetns;
  readonly result: SetupResult;
}

/** Opens a packet socket in the pod, on its interface. */
async function rawLink({ pod }: Pod): Promise<RawLink> {
  const [link] = await pod.ipJson("link", "show", "eth0");
  return new RawLink(pod.path, Number(link?.["ifindex"]));
}

/** Receives datagrams in a pod until the last one comes; returns what came. */
async function received(
  { pod }: Pod,
  { hostname, until, send }: {
    readonly hostname: string;
    readonly until: string;
    readonly send: () => void;
  },
): Promise<string[]> {
  using netns = Netns.open(pod.path);
  const socket = inNetns(
    netns,
    () => Deno.listenDatagram({ hostname, port: PORT, transport: "udp" }),
  );
  try {
    send();
    const texts: string[] = [];
    while (texts.at(-1) !== until) {
      const [data] = await socket.receive();
      texts.push(new TextDecoder().decode(data));
    }
    return texts;
  } finally {
    socket.close();
  }
}

/** Sends one datagram from each source, the own address last; returns the sources that arrived. */
async function sourcesThatArrive(
  { from, to, forged, own }: {
    readonly from: Pod;
    readonly to: Pod;
    readonly forged: readonly string[];
    readonly own: string;
  },
): Promise<string[]> {
  using link = await rawLink(from);
  const { podMac: fromMac, hostMac: toMac } = from.result;
  const { ipv4, ipv6 } = addressesOf(2);
  const hostname = String(own.includes(":") ? ipv6 : ipv4);
  return await received(to, {
    hostname,
    until: own,
    send() {
      for (const source of [...forged, own]) {
        link.send(
          udpFrame({
            fromMac,
            toMac,
            source,
            destination: hostname,
            port: PORT,
            payload: source,
          }),
        );
      }
    },
  });
}

/** Another pod, the node, the gateway on the link, and somebody outside. */
const FORGED = {
  ipv4: ["10.1.2.3", `${NODE.ipv4}`, "169.254.1.1", "203.0.113.9", "0.0.0.1"],
  ipv6: ["fd02::3", `${NODE.ipv6}`, "2001:db8:9::9", "fd02::ffff"],
} as const;
const OWN = { ipv4: "10.1.2.1", ipv6: "fd02::1" } as const;

async function neighboursOf(
  { host }: TestNode,
  name: string,
): Promise<string[]> {
  const rows = await host.ipJson("neigh", "show", "dev", name, "nud", "all");
  return rows.map(({ dst }) => String(dst)).filter((dst) =>
    // What the link itself has for groups.
    !dst.startsWith("ff02:") && !dst.startsWith("224.")
  ).toSorted();
}

netnsTest(
  "a pod's packets with a source that is not the pod's are dropped and counted",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    assert.equal(await table.ensure(), true);
    const from = await addPod(node, 1);
    const to = await addPod(node, 2);
    await addPod(node, 3);
    for (const family of ["ipv4", "ipv6"] as const) {
      const [forged, own] = [FORGED[family], OWN[family]];
      const arrived = await sourcesThatArrive({ from, to, forged, own });
      assert.deepEqual(arrived, [own]);
    }
    await eventually("each forged one counted", async () => {
      const { ipv4, ipv6 } = await table.countForged();
      return ipv4 === FORGED.ipv4.length && ipv6 === FORGED.ipv6.length;
    });
    for (const address of ["10.1.2.2", "fd02::2", "10.20.30.41", "fd10::41"]) {
      await ping(from.pod, address);
    }
    await ping(from.pod, `${linkLocalOf(from.result.hostMac)}%eth0`);
    await ping(node.host, "10.1.2.1");
    await ping(node.host, "fd02::1");
  },
);

netnsTest(
  "the command of coild.md finds the link of a pod that forges sources, before the table drops its packets",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    assert.equal(await table.ensure(), true);
    const from = await addPod(node, 1);
    const to = await addPod(node, 2);
    const guide = await Deno.readTextFile(
      new URL("../../docs/roles/coild.md", import.meta.url),
    );
    const [, command = ""] = /`nft '([^']+)'`/.exec(guide) ?? [];
    // The kernel's log is the machine's: the packets are counted instead, by link.
    const links = "set who { type ifname; flags dynamic; counter; };";
    const counting = command.replace("{", `{ ${links}`)
      .replace('log prefix "forged "', "update @who { iifname }");
    assert.match(counting, /update @who/);
    await node.host.exec("nft", counting);
    for (const family of ["ipv4", "ipv6"] as const) {
      const [[forged = ""], own] = [FORGED[family], OWN[family]];
      await sourcesThatArrive({ from, to, forged: [forged], own });
    }
    const { hostName } = from.result;
    const both = `elements = { "${hostName}" counter packets 2 `;
    const seen = await eventually("the link of both packets", async () => {
      const set = ["set", "inet", "who", "who"] as const;
      const text = await node.host.exec("nft", "list", ...set);
      return text.includes(both) && text;
    });
    await ping(to.pod, "10.1.2.1");
    assert.doesNotMatch(seen, new RegExp(to.result.hostName));
  },
);

netnsTest(
  "a pod that may send from any source does, and no other pod of the node",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    await table.ensure();
    const from = await addPod(node, 1, { sources: "any" });
    const to = await addPod(node, 2);
    const forged = ["10.1.2.3", "203.0.113.9"];
    const arrived = await sourcesThatArrive({
      from,
      to,
      forged,
      own: OWN.ipv4,
    });
    assert.deepEqual(arrived, [...forged, OWN.ipv4]);
    const [listed] = await node.net.list();
    assert.equal(listed?.sources, "any");
    assert.deepEqual(await table.countForged(), { ipv4: 0, ipv6: 0 });
    await node.net.check({ ...from.request });
  },
);

netnsTest(
  "pods whose gateway is the node's address reach it and each other, and forge nothing",
  async () => {
    await using guarded = await guardedNode({ gatewayMode: "node-address" });
    const { node, table } = guarded;
    await table.ensure();
    const from = await addPod(node, 1);
    const to = await addPod(node, 2);
    await from.pod.ip("neigh", "flush", "all", "nud", "all");
    for (const address of ["10.1.2.2", "fd02::2", "10.20.30.41", "fd10::41"]) {
      await ping(from.pod, address);
    }
    for (const family of ["ipv4", "ipv6"] as const) {
      const [forged, own] = [FORGED[family], OWN[family]];
      const arrived = await sourcesThatArrive({ from, to, forged, own });
      assert.deepEqual(arrived, [own]);
    }
  },
);

/** Frames of a flood: each has a sender of its own, but for duplicate address detection. */
const FLOODS: Readonly<Record<string, (pod: Pod, n: number) => Frame>> = {
  "ARP requests": ({ result: { podMac } }, n) =>
    arpRequest({
      fromMac: podMac,
      sender: `10.99.${n >> 8}.${n & 0xff}`,
      target: "169.254.1.1",
    }),
  "neighbour solicitations of link-local senders": (pod, n) =>
    solicitation(pod, `fe80::dead:${n.toString(16)}`),
  "neighbour solicitations of other senders": (pod, n) =>
    solicitation(pod, `fd77::${n.toString(16)}`),
  "neighbour advertisements": ({ result }, n) => {
    const target = `fe80::dead:${n.toString(16)}`;
    return discoveryFrame({
      fromMac: result.podMac,
      toMac: result.hostMac,
      target,
      source: target,
      kind: "advert",
      destination: `${linkLocalOf(result.hostMac)}`,
    });
  },
  "router solicitations": ({ result }, n) =>
    discoveryFrame({
      fromMac: result.podMac,
      toMac: "33:33:00:00:00:02",
      source: `fe80::dead:${n.toString(16)}`,
      destination: "ff02::2",
      kind: "routerSolicit",
    }),
  "duplicate address detection": (pod) => solicitation(pod, "::"),
};

function solicitation({ result }: Pod, source: string): Frame {
  const target = linkLocalOf(result.hostMac).toString();
  const end = result.hostMac.slice(-8);
  return discoveryFrame({
    fromMac: result.podMac,
    toMac: `33:33:ff:${end}`,
    source,
    target,
    kind: "solicit",
    destination: `ff02::1:ff${end.slice(0, 2)}:${
      end.slice(3).replace(":", "")
    }`,
  });
}

netnsTest(
  "a pod that floods its node with ARP and neighbour discovery makes no neighbour but itself",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    await table.ensure();
    const pod = await addPod(node, 1);
    const { hostName, podMac } = pod.result;
    const allowed = [OWN.ipv4, OWN.ipv6, `${linkLocalOf(podMac)}`];
    using link = await rawLink(pod);
    for (const [what, make] of Object.entries(FLOODS)) {
      for (let n = 1; n <= FLOOD; n++) link.send(make(pod, n));
      // Comes after the flood, and is answered: the node goes on with its own.
      await ping(pod.pod, "169.254.1.1");
      const strangers = (await neighboursOf(node, hostName))
        .filter((address) => !allowed.includes(address));
      assert.deepEqual(strangers, [], what);
    }
    // The pod finds its gateways again when it has forgotten them.
    await pod.pod.ip("neigh", "flush", "all", "nud", "all");
    await ping(pod.pod, NODE.ipv4);
    await ping(pod.pod, NODE.ipv6);
  },
);

/** Frames that come from a pod's own address, or from none, and that its node has no use for. */
const USELESS: readonly ((pod: Pod) => Frame)[] = [
  (pod) => solicitation(pod, "::"),
  ({ result: { podMac: fromMac } }) =>
    udpFrame({
      fromMac,
      toMac: "ff:ff:ff:ff:ff:ff",
      port: 67,
      payload: "x",
      source: "0.0.0.0",
      destination: "255.255.255.255",
    }),
  ...(["routerSolicit", "routerAdvert", "redirect"] as const).map(
    (kind) => ({ result: { podMac: fromMac } }: Pod) =>
      discoveryFrame({
        fromMac,
        toMac: "33:33:00:00:00:02",
        destination: "ff02::2",
        kind,
        source: `${linkLocalOf(fromMac)}`,
      }),
  ),
];

netnsTest(
  "a node takes no probes of addresses, no DHCP and no word about routers from a pod",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    await table.ensure();
    const pod = await addPod(node, 1);
    // After the table's chain, and before the kernel's own checks.
    await node.host.exec(
      "nft",
      `table inet seen { counter seen { }; chain pre {
        type filter hook prerouting priority -290;
        ip6 daddr ff02::16 accept;
        iifname "${pod.result.hostName}" counter name seen; }; }`,
    );
    using link = await rawLink(pod);
    for (const make of USELESS) link.send(make(pod));
    await ping(pod.pod, "169.254.1.1");
    const text = await node.host.exec("nft", "list", "counters");
    assert.match(text, /counter seen \{\s+packets 1 /);
    assert.deepEqual(await table.countForged(), { ipv4: 0, ipv6: 0 });
  },
);

netnsTest(
  "the table comes back as it was after any change to it",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    const [first] = await table.inspect();
    assert.equal(first, 'add table "inet coil-node"');
    await table.ensure();
    assert.deepEqual(await table.inspect(), []);
    assert.equal(await table.ensure(), false);
    const damages = [
      ["flush", "ruleset"],
      ["delete", "table", "inet", "coil-node"],
      ["flush", "chain", "inet", "coil-node", "pod-sources"],
      ["insert", "rule", "inet", "coil-node", "pod-sources", "accept"],
    ];
    for (const damage of damages) {
      await node.host.exec("nft", ...damage);
      assert.notDeepEqual(await table.inspect(), [], damage.join(" "));
      assert.equal(await table.ensure(), true);
      assert.deepEqual(await table.inspect(), []);
    }
  },
);

netnsTest(
  "pods that were connected without protection get it, and choices can be changed",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    await table.ensure();
    const from = await addPod(node, 1);
    const to = await addPod(node, 2);
    const { hostName } = from.result;
    const forged = ["203.0.113.9"];
    const arrive = () => sourcesThatArrive({ from, to, forged, own: OWN.ipv4 });
    // As upstream Coil, and this one before there was any of it, left them.
    await node.host.ip("link", "set", hostName, "group", "default");
    for (const name of ["rp_filter", "arp_filter"]) {
      using netns = Netns.open(node.host.path);
      writeSysctl(`net/ipv4/conf/${hostName}/${name}`, 0, { netns });
    }
    const sources = async (): Promise<PodSources | undefined> =>
      (await node.net.list()).find((p) => p.hostName === hostName)?.sources;
    assert.equal(await sources(), undefined);
    assert.deepEqual(await arrive(), [...forged, OWN.ipv4]);
    await assert.rejects(
      () => node.net.check(from.request),
      /lacks settings that keep the pod from forging sources/,
    );
    for (const choice of ["own", "any", "own"] as const) {
      const pod = (await node.net.list()).find((p) => p.hostName === hostName);
      assert.ok(pod);
      assert.equal(await node.net.setSources(pod, choice), true);
      assert.equal(await sources(), choice);
      const expected = choice === "own" ? [] : forged;
      assert.deepEqual(await arrive(), [...expected, OWN.ipv4]);
      await node.net.check(from.request);
    }
  },
);

netnsTest(
  "setSources() leaves a link alone that is not the pod's any more",
  async () => {
    await using node = await testNode();
    const { request, result } = await addPod(node, 1);
    const [pod] = await node.net.list();
    assert.ok(pod);
    const teardown = await node.net.beginTeardown(request);
    assert.ok(teardown);
    assert.equal(await node.net.setSources(pod, "own"), false);
    const [husk] = await node.host.ipJson("link", "show", result.hostName);
    assert.equal(husk?.["group"], "30115");
    await node.net.finishTeardown(teardown);
    assert.equal(await node.net.setSources(pod, "own"), false);
  },
);

/** A socket that stops before its last request, as the kernel may be interrupted there. */
class HaltingSocket {
  readonly #socket: RouteSocket;
  readonly #halt: () => Promise<void>;

  constructor(socket: RouteSocket, halt: () => Promise<void>) {
    this.#socket = socket;
    this.#halt = halt;
  }

  listLinks(): ReturnType<RouteSocket["listLinks"]> {
    return this.#socket.listLinks();
  }

  async tryExecute(
    requests: readonly Request[],
  ): ReturnType<RouteSocket["tryExecute"]> {
    const errors = await this.#socket.tryExecute(requests.slice(0, -1));
    await this.#halt();
    return [...errors, ...await this.#socket.tryExecute(requests.slice(-1))];
  }
}

netnsTest(
  "pods that are deleted together send nothing unchecked between their group's making and its end",
  async () => {
    await using guarded = await guardedNode();
    const { node, table } = guarded;
    await table.ensure();
    const pods = [await addPod(node, 1), await addPod(node, 2)];
    const husks = [];
    for (const { request, result } of pods) {
      const teardown = await node.net.beginTeardown(request);
      assert.ok(teardown);
      husks.push({ ...request, index: result.hostIndex });
    }
    // After the table's chain.
    await node.host.exec(
      "nft",
      `table inet seen { counter seen { }; chain pre {
        type filter hook prerouting priority -290;
        ip saddr 203.0.113.9 counter name seen; }; }`,
    );
    let wasHalted = false;
    const halt = async () => {
      wasHalted = true;
      for (const pod of pods) {
        const [link] = await node.host.ipJson(
          ...["link", "show", pod.result.hostName],
        );
        assert.notEqual(link?.["group"], "30115", "it is in a group to delete");
        using raw = await rawLink(pod);
        const { podMac: fromMac, hostMac: toMac } = pod.result;
        raw.send(
          udpFrame({
            fromMac,
            toMac,
            source: "203.0.113.9",
            destination: `${NODE.ipv4}`,
            port: PORT,
            payload: "forged",
          }),
        );
      }
      await eventually("that both packets were dropped", async () => {
        return (await table.countForged()).ipv4 === pods.length;
      });
    };
    using netns = Netns.open(node.host.path);
    await using socket = RouteSocket.open({ netns });
    const reaper = new HuskReaper(
      new HaltingSocket(socket, halt) as unknown as RouteSocket,
      { isHusk: isLinkOf },
    );
    // The first one goes by itself unless both wait.
    await Promise.all(husks.map((husk) => reaper.delete(husk)));
    assert.ok(wasHalted);
    const text = await node.host.exec("nft", "list", "counters");
    assert.match(text, /counter seen \{\s+packets 0 /);
    assert.deepEqual(await node.net.list(), []);
  },
);

netnsTest(
  "ensure() says what a node lacks whose kernel refuses the table",
  async () => {
    await using guarded = await guardedNode();
    const { node: { host }, table } = guarded;
    // Only the program that made such a table may change it, as long as it runs.
    const owner = new Deno.Command("ip", {
      args: ["netns", "exec", host.name, "nft", "-i"],
      stdin: "piped",
      stdout: "null",
    }).spawn();
    const input = owner.stdin.getWriter();
    const command = `add table inet ${NODE_NFT_TABLE} { flags owner; }\n`;
    await input.write(new TextEncoder().encode(command));
    await eventually(
      "the table is there",
      async () => (await host.exec("nft", "list", "tables")) !== "",
    );
    await assert.rejects(table.ensure(), SourceTableError);
    await input.close();
    await owner.status;
    assert.equal(await table.ensure(), true);
  },
);
