import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { Netns, writeSysctl } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  nft,
  type NftChain,
  type NftRule,
  type NftSet,
  type NftTable,
} from "../../lib/netlink/mod.ts";
import { countEchoes } from "./echoes.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";
import { awaitedLater, eventually } from "../lab/wait.ts";

/** A client and a server with a router between them, whose nf_tables are looked at. */
interface Topology extends AsyncDisposable {
  /** 10.0.1.2 and fd00:1::2. */
  readonly client: TempNetns;
  /** `in` is 10.0.1.1 and fd00:1::1; `out` is 10.0.2.1 and fd00:2::1. */
  readonly router: TempNetns;
  /** 10.0.2.2 and fd00:2::2. */
  readonly server: TempNetns;
  /** Of the router. */
  readonly socket: NetfilterSocket;
}

async function topology(): Promise<Topology> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await tempNetns("client"));
  const router = stack.use(await tempNetns("router"));
  const server = stack.use(await tempNetns("server"));
  const netns = stack.use(Netns.open(router.path));
  for (const name of ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]) {
    writeSysctl(`net/${name}`, "1", { netns });
  }
  for (const { path } of [client, router, server]) {
    using there = Netns.open(path); // where nobody waits for addresses in use twice
    writeSysctl("net/ipv6/conf/default/accept_dad", "0", { netns: there });
  }
  await connect(router, { far: client, name: "in", subnet: 1 });
  await connect(router, { far: server, name: "out", subnet: 2 });
  const socket = stack.use(NetfilterSocket.open({ netns }));
  const kept = stack.move();
  return {
    client,
    router,
    server,
    socket,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function connect(
  router: TempNetns,
  options: {
    readonly far: TempNetns;
    readonly name: string;
    readonly subnet: number;
  },
): Promise<void> {
  const { far, name, subnet } = options;
  await router.ip(
    ...["link", "add", name, "type", "veth", "peer", "name", "eth0"],
    ...["netns", far.name],
  );
  for (
    const [netns, link, host] of [[router, name, 1], [far, "eth0", 2]] as const
  ) {
    const addresses = [
      `10.0.${subnet}.${host}/24`,
      `fd00:${subnet}::${host}/64`,
    ];
    for (const address of addresses) {
      await netns.ip("address", "add", address, "dev", link, ...nodad(address));
    }
    await netns.ip("link", "set", link, "up");
  }
  await far.ip("route", "add", "default", "via", `10.0.${subnet}.1`);
  await far.ip("-6", "route", "add", "default", "via", `fd00:${subnet}::1`);
}

function nodad(address: string): string[] {
  return address.includes(":") ? ["nodad"] : [];
}

function chain(
  hook: NftChain["hook"],
  rules: readonly NftRule[],
  options: Partial<NftChain> = {},
): NftChain {
  const type = "filter";
  return {
    name: hook,
    type,
    hook,
    priority: 0,
    policy: "accept",
    rules,
    ...options,
  };
}

function table(
  chains: readonly NftChain[],
  options: {
    readonly counters?: readonly string[];
    readonly sets?: readonly NftSet[];
  } = {},
): NftTable {
  return {
    family: "inet",
    name: "t",
    counters: [],
    sets: [],
    chains,
    ...options,
  };
}

async function packets(
  { socket }: Topology,
  ...names: readonly string[]
): Promise<number[]> {
  const counters = await socket.readCounters("t");
  return names.map((name) => Number(counters.get(name)?.packets));
}

/** The counts become these: a packet that is sent may still be on its way through the kernel. */
async function settlesAt(
  counts: () => Promise<readonly unknown[]>,
  expected: readonly number[],
): Promise<void> {
  await eventually("the counts", async () => {
    assert.deepEqual(await counts(), expected);
    return true;
  });
}

/** Whether so many echo requests are all answered. Waits long for answers unless none is expected. */
async function ping(
  from: TempNetns,
  to: string,
  options: { readonly count?: number; readonly waitSeconds?: number } = {},
): Promise<boolean> {
  const { count = 1, waitSeconds = 10 } = options;
  const { code } = await from.tryExec(
    "ping",
    ...[`-c${count}`, "-i0.01", `-W${waitSeconds}`, to],
  );
  return code === 0;
}

const LOST = { waitSeconds: 1 } as const;

/** Sends one UDP datagram to port 5555. Through dd(1): printf would send one for each line. */
async function send(
  from: TempNetns,
  to: string,
  bytes: readonly number[],
): Promise<void> {
  const text = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`);
  await from.exec(
    "bash",
    "-c",
    `printf '${
      text.join("")
    }' | dd bs=64 iflag=fullblock status=none > /dev/udp/${to}/5555`,
  );
}

/** Counts packets that come in, by the oracle's own means. Returns what tells how many agreed with each of the matches. */
async function watch(
  netns: TempNetns,
  matches: readonly string[],
): Promise<() => Promise<number[]>> {
  const rules = matches.map((match) => `${match} counter`);
  const head = "type filter hook input priority filter";
  await netns.exec(
    "nft",
    `table inet seen {\nchain c {\n${head}\n${rules.join("\n")}\n}\n}`,
  );
  return async () => {
    const listed = await netns.exec("nft", "list", "table", "inet", "seen");
    return [...listed.matchAll(/counter packets (\d+)/g)].map(([, count]) =>
      Number(count)
    );
  };
}

/** The beginning of an IPv4 or IPv6 packet, as far as its source. */
function packetFrom(text: string): number[] {
  const source = Address.parse(text);
  return source.family === "ipv4"
    ? [0x45, ...new Array(11).fill(0), ...source.toBytes(), 10, 9, 9, 9]
    : [0x60, ...new Array(7).fill(0), ...source.toBytes()];
}

netnsTest(
  "datagrams pass only if the source of the packet in them belongs to their own",
  async () => {
    await using net = await topology();
    const pair = (text: string) => [Address.parse(text), Address.parse(text)];
    await net.socket.replaceTable(table([
      chain("prerouting", [
        nft.rule([
          nft.udpDport(5555),
          nft.inSet(["ip saddr", "inner ip saddr"], "clients4"),
          nft.counter("own4"),
          nft.accept(),
        ]),
        nft.rule([
          nft.udpDport(5555),
          nft.inSet(["ip6 saddr", "inner ip6 saddr"], "clients6"),
          nft.counter("own6"),
          nft.accept(),
        ]),
        nft.rule([nft.udpDport(5555), nft.counter("foreign"), nft.drop()]),
      ], { priority: -150 }),
      chain("input", [
        nft.rule([nft.udpDport(5555), nft.counter("passed"), nft.drop()]),
      ]),
    ], {
      counters: ["own4", "own6", "foreign", "passed"],
      sets: [
        {
          name: "clients4",
          key: ["ipv4_addr", "ipv4_addr"],
          elements: [pair("10.0.1.2")],
        },
        {
          name: "clients6",
          key: ["ipv6_addr", "ipv6_addr"],
          elements: [pair("fd00:1::2")],
        },
      ],
    }));
    const counted = () => packets(net, "own4", "own6", "foreign", "passed");
    await send(net.client, "10.0.1.1", packetFrom("10.0.1.2"));
    await settlesAt(counted, [1, 0, 0, 1]);
    await send(net.client, "fd00:1::1", packetFrom("fd00:1::2"));
    await settlesAt(counted, [1, 1, 0, 2]);
    // The packet in it comes from somebody else, the sender is no client, or there is no packet.
    await send(net.client, "10.0.1.1", packetFrom("10.0.1.3"));
    await send(net.client, "fd00:1::1", packetFrom("fd00:1::3"));
    await send(net.server, "10.0.2.1", packetFrom("10.0.1.2"));
    await send(net.server, "fd00:2::1", packetFrom("fd00:2::2"));
    await send(net.client, "10.0.1.1", [0x45]);
    await settlesAt(counted, [1, 1, 5, 2]);

    await net.socket.changeSet({
      table: "t",
      set: "clients4",
      add: [pair("10.0.2.2")],
      remove: [pair("10.0.1.2")],
    });
    await send(net.server, "10.0.2.1", packetFrom("10.0.2.2"));
    await send(net.client, "10.0.1.1", packetFrom("10.0.1.2"));
    await settlesAt(counted, [2, 1, 6, 3]);
  },
);

netnsTest(
  "what goes out is masqueraded and counted, and nobody comes in from outside",
  async () => {
    await using net = await topology();
    await net.socket.replaceTable(table([
      chain("forward", [
        nft.rule([
          nft.oifname("out"),
          nft.ctState("invalid"),
          nft.counter("invalid"),
          nft.drop(),
        ]),
        nft.rule([
          nft.iifname("out"),
          nft.ctState("new"),
          nft.counter("intruders"),
          nft.drop(),
        ]),
      ]),
      chain(
        "postrouting",
        ["10.0.2.1", "fd00:2::1"].map((own) =>
          nft.rule([
            nft.oifname("ou*"),
            nft.saddr(Address.parse(own), { not: true }),
            nft.counter(own.includes(":") ? "out6" : "out4"),
            nft.masquerade(),
          ])
        ),
        { type: "nat", priority: 100 },
      ),
    ], { counters: ["invalid", "intruders", "out4", "out6"] }));
    const seen = await watch(net.server, [
      "icmp type echo-request ip saddr 10.0.2.1",
      "icmp type echo-request ip saddr != 10.0.2.1",
      "icmpv6 type echo-request ip6 saddr fd00:2::1",
      "icmpv6 type echo-request ip6 saddr != fd00:2::1",
    ]);
    assert(await ping(net.client, "10.0.2.2", { count: 3 }));
    assert(await ping(net.client, "fd00:2::2", { count: 3 }));
    assert(!await ping(net.server, "10.0.1.2", LOST));
    assert(!await ping(net.server, "fd00:1::2", LOST));
    assert(await ping(net.router, "10.0.2.2"));
    assert.deepEqual(
      await packets(net, "out4", "out6", "intruders"),
      [1, 1, 2], // nat chains see the first packet of each connection
    );
    assert.deepEqual(await seen(), [4, 0, 3, 0]);
  },
);

netnsTest("who is refused is told so", async () => {
  await using net = await topology();
  const refuse = (code: "admin-prohibited" | "host-unreachable") =>
    net.socket.replaceTable(table([
      chain("forward", [
        nft.rule([nft.l4proto("icmp"), nft.reject(code)]),
        nft.rule([nft.l4proto("ipv6-icmp"), nft.reject(code)]),
      ]),
    ]));
  const answer = async (to: string) =>
    (await net.client.tryExec("ping", "-c1", "-W10", to)).stdout;
  await refuse("admin-prohibited");
  assert.match(await answer("10.0.2.2"), /From 10\.0\.1\.1 .*Packet filtered/);
  assert.match(
    await answer("fd00:2::2"),
    /From fd00:1::1 .*Administratively prohibited/,
  );
  await refuse("host-unreachable");
  assert.match(
    await answer("10.0.2.2"),
    /From 10\.0\.1\.1 .*Destination Host Unreachable/,
  );
  assert.match(
    await answer("fd00:2::2"),
    /From fd00:1::1 .*Address unreachable/,
  );
});

netnsTest(
  "a connection's mark comes back on its answers and reroutes them",
  async () => {
    await using net = await topology();
    await net.router.ip(
      "route",
      "add",
      "unreachable",
      "10.0.2.0/24",
      "table",
      "100",
    );
    await net.router.ip("rule", "add", "fwmark", "7", "lookup", "100");
    const marking = (mark: number) =>
      net.socket.replaceTable(table([
        chain("input", [
          nft.rule([
            nft.inSet(["iifname"], "links"),
            nft.ctDirection("original"),
            nft.ctState("new", "established", "related"),
            nft.setCtMark(mark),
          ]),
        ], { priority: -150 }),
        chain("output", [
          nft.rule([
            nft.ctMark(mark),
            nft.restoreMark(),
            nft.counter("restored"),
          ]),
        ], { type: "route", priority: -150 }),
        chain("postrouting", [
          nft.rule([nft.metaMark(mark), nft.counter("marked")]),
        ]),
      ], {
        counters: ["restored", "marked"],
        sets: [{ name: "links", key: ["ifname"], elements: [["out"]] }],
      }));
    await marking(8);
    assert(await ping(net.server, "10.0.2.1", { count: 2 }));
    assert(await ping(net.client, "10.0.1.1", { count: 2 })); // comes in by another link
    assert.deepEqual(await packets(net, "restored", "marked"), [2, 2]);
    await marking(7); // now the answers are sent where the rule says: nowhere
    assert(!await ping(net.server, "10.0.2.1", LOST));
    assert.deepEqual(await packets(net, "restored", "marked"), [3, 2]);
  },
);

netnsTest(
  "segments of new TCP connections become as small as the route wants",
  async () => {
    await using net = await topology();
    await net.router.ip("link", "set", "out", "mtu", "1400");
    await net.socket.replaceTable(
      table([chain("forward", [nft.rule([nft.clampMss()])])]),
    );
    const seen = await watch(net.server, [
      "tcp option maxseg size 1360",
      "tcp option maxseg size 1340",
      "tcp option maxseg size > 1360",
    ]);
    for (const address of ["10.0.2.2", "fd00:2::2"]) {
      assert(await ping(net.client, address)); // neighbours are known now
      const { code } = await net.client.tryExec(
        "bash",
        "-c",
        `: > /dev/tcp/${address}/9`,
      );
      assert.notEqual(code, 0); // nobody listens
    }
    assert.deepEqual(await seen(), [1, 1, 0]);
  },
);

netnsTest(
  "what is not tracked is not tracked, and tunnels without UDP can be told apart",
  async () => {
    await using net = await topology();
    await net.socket.replaceTable(table([
      chain("prerouting", [
        nft.rule([nft.udpDport(5555), nft.notrack()]),
        nft.rule([nft.l4proto("ipencap"), nft.counter("ipip"), nft.drop()]),
      ], { priority: -300 }),
    ], { counters: ["ipip"] }));
    const seen = await watch(net.router, [
      "ct state untracked udp dport 5555",
      "ct state new udp dport 5555",
      "ct state new udp dport 5556",
    ]);
    await send(net.client, "10.0.1.1", [0]);
    await net.client.exec("bash", "-c", "printf x > /dev/udp/10.0.1.1/5556");
    await settlesAt(seen, [1, 0, 1]);
    assert.deepEqual(await packets(net, "ipip"), [0]);
  },
);

/** Anyone who is not allowed is refused: by the policy, or by the last rule. */
function guard(
  variant: number,
  options: { readonly policy: NftChain["policy"]; readonly extra?: boolean },
): NftTable {
  const { policy, extra } = options;
  const elements = [[Address.parse("10.0.2.2")]];
  const last = policy === "drop" ? [] : [nft.drop()];
  const empty: NftSet[] = extra === true
    ? [{ name: `extra${variant % 2}`, key: ["mark"], elements: [] }]
    : [];
  return table([
    chain("forward", [
      nft.rule([nft.inSet(["ip daddr"], "allowed"), nft.accept()]),
      nft.rule([nft.inSet(["ip saddr"], "allowed"), nft.accept()]),
      nft.rule([nft.counter("refused"), ...last], {
        comment: `variant ${variant}`,
      }),
    ], { policy }),
  ], {
    counters: ["refused"],
    sets: [{ name: "allowed", key: ["ipv4_addr"], elements }, ...empty],
  });
}

/** Replaces a table again and again while one destination is allowed and the other is not. Tells what was counted. */
async function replaceUnderTraffic(
  net: Topology,
  variant: (n: number) => NftTable,
): Promise<{ readonly sent: number; readonly counted: number }> {
  await net.server.ip("address", "add", "10.0.2.3/24", "dev", "eth0");
  await net.socket.replaceTable(variant(0));
  const each = 400;
  const flood = (to: string, wait: string) =>
    net.client.tryExec("ping", `-c${each}`, "-i0.002", wait, to);
  const done = new AbortController();
  let times = 0;
  const replacing = awaitedLater(
    (async () => {
      while (!done.signal.aborted) {
        await net.socket.replaceTable(variant(++times));
      }
    })().finally(() => done.abort()),
  );
  let sent = 0;
  // A slow machine replaces few of them in the meantime.
  do {
    const [allowed, refused] = await Promise.all([
      flood("10.0.2.2", "-W60"),
      flood("10.0.2.3", "-W1"),
    ]);
    assert.deepEqual(countEchoes(allowed.stdout), { sent: each, lost: 0 });
    assert.match(refused.stdout, / 0 received/);
    sent += each;
  } while (times <= 2 && !done.signal.aborted);
  done.abort();
  await replacing;
  const [counted = 0] = await packets(net, "refused");
  return { sent, counted };
}

netnsTest(
  "while rules are replaced no packet is lost, none slips through, and each is counted",
  async () => {
    await using net = await topology();
    const { sent, counted } = await replaceUnderTraffic(
      net,
      (n) => guard(n, { policy: "drop" }),
    );
    assert.equal(counted, sent);
  },
);

netnsTest(
  "while a whole table is recreated no packet is lost and none slips through",
  async () => {
    await using net = await topology();
    const { sent, counted } = await replaceUnderTraffic(
      net,
      (n) => guard(n, { policy: "accept", extra: true }),
    );
    // What is counted between reading the counters and the commit is forgotten, here again and again.
    assert(counted > 0 && counted <= sent, `${counted} counted`);
  },
);
