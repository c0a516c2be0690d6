// Connections as ctnetlink tells them, against /proc/net/nf_conntrack.
import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { Address, FAMILIES } from "../../lib/inet/mod.ts";
import {
  inNetns,
  NETLINK_NETFILTER,
  Netns,
  openNetlink,
} from "../../lib/linux/mod.ts";
import { Connection } from "../../lib/netlink/connection/connection.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackEnd,
  type ConntrackFlow,
  ConntrackSocket,
  type Request,
} from "../../lib/netlink/mod.ts";
import { keepFlows, netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const CLIENT = { ipv4: "10.1.1.2", ipv6: "fd01::2" } as const;
const SERVER = { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" } as const;
const GATEWAY = { ipv4: "203.0.113.1", ipv6: "2001:db8:9::1" } as const;
const PORT = 8080;

type Both = Record<"ipv4" | "ipv6", string>;

/** A client, a gateway that translates sources, a server; both families. */
interface Lab extends AsyncDisposable {
  readonly client: TempNetns;
  readonly gateway: TempNetns;
  readonly server: TempNetns;
}

async function makeLab(): Promise<Lab> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await tempNetns("client"));
  const gateway = stack.use(await tempNetns("gw"));
  const server = stack.use(await tempNetns("server"));
  await keepFlows(gateway);
  await connect({ gateway, end: client, name: "c" }, [
    ["10.1.1.1/24", `${CLIENT.ipv4}/24`, "10.1.1.1"],
    ["fd01::1/64", `${CLIENT.ipv6}/64`, "fd01::1"],
  ]);
  await connect({ gateway, end: server, name: "s" }, [
    [`${GATEWAY.ipv4}/24`, `${SERVER.ipv4}/24`, GATEWAY.ipv4],
    [`${GATEWAY.ipv6}/64`, `${SERVER.ipv6}/64`, GATEWAY.ipv6],
  ]);
  await gateway.exec(
    "bash",
    "-c",
    "for f in ipv4/conf/all ipv6/conf/all; do echo 1 >/proc/sys/net/$f/forwarding; done",
  );
  await gateway.exec(
    "nft",
    "add table inet t; add chain inet t post " +
      "{ type nat hook postrouting priority srcnat; }; " +
      "add rule inet t post oifname s masquerade",
  );
  const moved = stack.move();
  return {
    client,
    gateway,
    server,
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

/** A link between the gateway and an end; for each family the gateway's address, the end's, and the way out. */
async function connect(
  { gateway, end, name }: { gateway: TempNetns; end: TempNetns; name: string },
  families: readonly (readonly [string, string, string])[],
): Promise<void> {
  await gateway.ip(
    ...["link", "add", name, "type", "veth"],
    ...["peer", "name", "eth0", "netns", end.name],
  );
  await gateway.ip("link", "set", name, "up");
  await end.ip("link", "set", "eth0", "up");
  for (const [here, there, way] of families) {
    const noDad = here.includes(":") ? ["nodad"] : [];
    await gateway.ip("addr", "add", here, "dev", name, ...noDad);
    await end.ip("addr", "add", there, "dev", "eth0", ...noDad);
    await end.ip("route", "add", "default", "via", way);
  }
}

function openIn(temp: TempNetns): ConntrackSocket {
  using netns = Netns.open(temp.path);
  return ConntrackSocket.open({ netns });
}

/** The lines of /proc/net/nf_conntrack, without what changes by itself. */
async function procLines(temp: TempNetns): Promise<string[]> {
  const text = await temp.exec("cat", "/proc/net/nf_conntrack");
  return text.trimEnd().split("\n").map(procLine).sort();
}

/** `ipv4 6 ESTABLISHED src=… dst=… sport=… dport=… src=… … [ASSURED]`, in a form that a flow has too. */
function procLine(line: string): string {
  const [family, , , protocol] = line.trim().split(/\s+/);
  const state = /\d+ ([A-Z_]+[0-9]?) src=/.exec(line)?.[1];
  const value = (key: string) =>
    Array.from(
      line.matchAll(new RegExp(`\\b${key}=(\\S+)`, "g")),
      ([, text]) => text ?? "",
    );
  const address = (text: string | undefined) => Address.parse(text ?? "");
  const [source, replySource] = value("src").map(address);
  const [destination, replyDestination] = value("dst").map(address);
  const ids = value("id");
  const [sport, replySport] = ids.length > 0 ? ids : value("sport");
  const [dport, replyDport] = ids.length > 0 ? ids : value("dport");
  return [
    family,
    protocol,
    state,
    `${source}:${sport}>${destination}:${dport}`,
    `${replySource}:${replySport}>${replyDestination}:${replyDport}`,
    !line.includes("[UNREPLIED]"),
    line.includes("[ASSURED]"),
  ].join(" ");
}

function flowLine(flow: ConntrackFlow): string {
  const { family, protocol, tcpState, status } = flow;
  return [
    family,
    protocol,
    tcpState,
    `${flow.originalSource}:${flow.originalSourcePort}>${flow.originalDestination}:${flow.originalDestinationPort}`,
    `${flow.replySource}:${flow.replySourcePort}>${flow.replyDestination}:${flow.replyDestinationPort}`,
    (status & CONNTRACK_STATUS.seenReply) !== 0,
    (status & CONNTRACK_STATUS.assured) !== 0,
  ].join(" ");
}

/** Connections of every protocol and both families through the gateway; open until disposed. */
async function converse({ client, server }: Lab): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  using netns = Netns.open(server.path);
  for (const family of ["ipv4", "ipv6"] as const) {
    const hostname = SERVER[family];
    using listener = inNetns(
      netns,
      () => Deno.listen({ hostname, port: PORT }),
    );
    const talk = new Deno.Command("nsenter", {
      args: [
        ...[`--net=${client.path}`, "bash", "-c"],
        `exec 3<>/dev/tcp/${hostname}/${PORT}; echo >/dev/udp/${hostname}/9; echo >&3; read -u 3`,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    stack.defer(async () => {
      talk.kill("SIGKILL"); // it may never hear of the end of a connection that is not tracked any more
      await talk.status;
    });
    const accepted = stack.use(await listener.accept());
    await client.exec("ping", "-c1", "-w20", hostname);
    await accepted.read(new Uint8Array(8)); // the datagram went before
  }
  const moved = stack.move();
  return { [Symbol.asyncDispose]: () => moved.disposeAsync() };
}

netnsTest("list() tells every connection as /proc does", async () => {
  await using lab = await makeLab();
  await using socket = openIn(lab.gateway);
  assert.deepEqual(await listFlows(socket), []);
  await using _talks = await converse(lab);

  const flows = await listFlows(socket);
  const ours = flows.map(flowLine).sort();
  assert.deepEqual(ours, await procLines(lab.gateway));
  for (const family of ["ipv4", "ipv6"] as const) {
    const of = flows.filter((flow) => flow.family === family);
    const from = of.filter((f) => `${f.originalSource}` === CLIENT[family]);
    assert.deepEqual(
      from.map(({ protocol }) => protocol).sort((a, b) => a - b),
      family === "ipv4" ? [1, 6, 17] : [6, 17, 58],
    );
    for (const flow of from) {
      assert.equal(`${flow.originalDestination}`, SERVER[family]);
      assert.equal(`${flow.replyDestination}`, GATEWAY[family]);
      assert.notEqual(flow.status & CONNTRACK_STATUS.srcNat, 0);
      assert(flow.timeoutSeconds > 0);
      assert.equal(flow.mark, 0);
    }
    const tcp = from.find(({ protocol }) => protocol === 6);
    assert.equal(tcp?.tcpState, "ESTABLISHED");
    assert.equal(tcp?.originalDestinationPort, PORT);
    const listed = await listFlows(socket, { family });
    assert.deepEqual(listed.map(flowLine).sort(), of.map(flowLine).sort());
  }
  const ends = [["opens", CLIENT], ["answers", SERVER], ["opens", SERVER]];
  for (const [role, { ipv4, ipv6 }] of ends as [ConntrackEnd["role"], Both][]) {
    const of = (text: string) =>
      listFlows(socket, { end: { address: Address.parse(text), role } });
    const key = role === "opens" ? "originalSource" : "replySource";
    const expected = flows.filter((flow) => `${flow[key]}` === ipv4);
    assert.deepEqual(
      (await of(ipv4)).map(flowLine).sort(),
      expected.map(flowLine).sort(),
    );
    const all = flows.filter(({ family }) => family === "ipv6");
    assert.equal((await of(ipv6)).length, all.length);
  }
  const { entries, max } = await socket.count();
  assert.equal(entries, flows.length);
  const limit = await lab.gateway.exec(
    "cat",
    "/proc/sys/net/netfilter/nf_conntrack_max",
  );
  assert.equal(max, Number(limit));
});

netnsTest("deleteWhere() deletes what matches and nothing else", async () => {
  await using lab = await makeLab();
  using socket = openIn(lab.gateway);
  await using _talks = await converse(lab);
  const before = await procLines(lab.gateway);
  const tcp = (line: string) => line.split(" ")[1] === "6";
  assert.equal(before.filter(tcp).length, 2);

  assert.equal(await socket.deleteWhere((flow) => flow.protocol === 6), 2);
  const after = await procLines(lab.gateway);
  assert.deepEqual(after, before.filter((line) => !tcp(line)));
  assert.equal(await socket.deleteWhere((flow) => flow.protocol === 6), 0);
  const rest = before.filter((line) => !tcp(line) && line.startsWith("ipv6"));
  const deleted = await socket.deleteWhere(() => true, { family: "ipv6" });
  assert.equal(deleted, rest.length);
  const left = await procLines(lab.gateway);
  assert(left.length > 0 && left.every((line) => line.startsWith("ipv4")));
});

netnsTest("delete() deletes one connection, of both families", async () => {
  await using lab = await makeLab();
  using socket = openIn(lab.gateway);
  await using _talks = await converse(lab);
  const before = await listFlows(socket);
  for (const family of FAMILIES) {
    const flow = (await listFlows(socket, { family })).find(({ protocol }) =>
      protocol === 17
    );
    assert(flow !== undefined, family);
    const tuple = {
      protocol: flow.protocol,
      source: flow.originalSource,
      destination: flow.originalDestination,
      sourcePort: flow.originalSourcePort,
      destinationPort: flow.originalDestinationPort,
    };
    assert.equal(await socket.delete(tuple), true, family);
    assert.equal(await socket.delete(tuple), false, family);
  }
  assert.equal(
    (await listFlows(socket)).length,
    before.length - FAMILIES.length,
  );
});

netnsTest("visit() shows 100,000 connections", async () => {
  await using temp = await tempNetns("ct");
  // Connections are tracked where somebody asks for it.
  await temp.exec(
    "nft",
    "add table ip t; add chain ip t c { type filter hook input priority 0; }; " +
      "add rule ip t c ct state established accept",
  );
  const limit = Number(
    await temp.exec("cat", "/proc/sys/net/netfilter/nf_conntrack_max"),
  );
  const wanted = Math.min(100_000, Math.floor(limit / 2));
  using netns = Netns.open(temp.path);
  using connection = new Connection(openNetlink(NETLINK_NETFILTER, { netns }));
  const outcomes = await connection.tryExecute(
    Array.from({ length: wanted }, (_, index) => newFlow(index)),
  );
  assert.deepEqual(outcomes.filter((outcome) => outcome !== undefined), []);

  using socket = ConntrackSocket.open({ netns });
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const seen = new Set<string>();
  try {
    await socket.visit((flow) => {
      seen.add(`${flow.originalSource}:${flow.originalSourcePort}`);
    });
  } finally {
    clearInterval(timer);
  }
  assert.equal(seen.size, wanted);
  assert.equal((await socket.count()).entries, wanted);
  assert(turns > 10, `the event loop had ${turns} turns`);
  const half = (port: number) => port % 2 === 0;
  const deleted = await socket.deleteWhere((f) => half(f.originalSourcePort));
  assert.equal(deleted, wanted / 2);
  assert.equal((await socket.count()).entries, wanted / 2);
});

/** Tells the kernel of a connection that never was: UDP from 10.x.y.z. */
function newFlow(index: number): Request {
  const ends = [
    { address: [10, index >> 16 & 0xff, index >> 8 & 0xff, 1], port: 0 },
    { address: [203, 0, 113, 9], port: 53 },
  ] as const;
  const port = 1024 + (index & 0xff);
  return {
    type: 1 << 8, // IPCTNL_MSG_CT_NEW
    flags: 0x400, // NLM_F_CREATE
    describe: () => `make connection ${index}`,
    write(writer) {
      writer.u32(2); // AF_INET
      for (const [type, from, to] of [[1, 0, 1], [2, 1, 0]] as const) {
        writer.nest(type, () => { // CTA_TUPLE_ORIG, CTA_TUPLE_REPLY
          writer.nest(1, () => {
            writer.attributeBytes(1, Uint8Array.from(ends[from].address));
            writer.attributeBytes(2, Uint8Array.from(ends[to].address));
          });
          writer.nest(2, () => {
            writer.attributeU8(1, 17);
            writer.attributeU16Be(2, ends[from].port || port);
            writer.attributeU16Be(3, ends[to].port || port);
          });
        });
      }
      writer.attributeU32Be(7, 600); // CTA_TIMEOUT
    },
  };
}
