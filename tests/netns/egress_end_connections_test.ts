import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import { startTimer } from "../../lib/async/mod.ts";
import { endConnections, gatewayMark } from "../../lib/egress/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { inNetns, Netns, openDatagramSocket } from "../../lib/linux/mod.ts";
import { ConntrackSocket, TcpSockets } from "../../lib/netlink/mod.ts";
import { eventually } from "../lab/wait.ts";
import { keepFlows, netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const LOST = Address.parse("10.65.0.1");
const OTHER = Address.parse("10.65.0.2");
/** Servers' ports, by the gateway that connections to them go through. */
const PORTS = { lost: 7001, other: 7002, none: 7003 } as const;
type Through = keyof typeof PORTS;
/** Connections of a pod through each gateway, more than are looked at together. */
const MANY = 600;
const TCP = 6;
const UDP = 17;
/** So long a program keeps its socket locked at most. */
const LIMIT_MS = 60_000;
/** ECONNABORTED. */
const ABORTED = /os error 103/;

/** Marks connections as a client's table does. */
async function markConnections(temp: TempNetns): Promise<void> {
  await keepFlows(temp);
  const rule = (port: number, gateway: Address) =>
    `meta l4proto { tcp, udp } th dport ${port} ct mark set ${
      gatewayMark(gateway)
    }`;
  await temp.exec(
    "nft",
    `table inet marks {
  chain out {
    type filter hook output priority 0
    ${rule(PORTS.lost, LOST)}
    ${rule(PORTS.other, OTHER)}
  }
}`,
  );
}

/** The protocols of the connections through a gateway. */
async function protocolsThrough(
  gateway: Address,
  netns: Netns,
): Promise<number[]> {
  await using conntrack = ConntrackSocket.open({ netns });
  return (await listFlows(conntrack))
    .filter(({ mark }) => mark === gatewayMark(gateway))
    .map(({ protocol }) => protocol);
}

/** A connection of a program, with the other end. */
class Connection implements Disposable {
  readonly #ends: readonly Deno.TcpConn[];
  readonly #waiting: Promise<string>;

  private constructor(ends: readonly [Deno.TcpConn, Deno.TcpConn]) {
    this.#ends = ends;
    const [client] = ends;
    this.#waiting = client.read(new Uint8Array(9))
      .then((length) => `read ${length}`, (error) => `${error}`);
  }

  static async open(
    netns: Netns,
    listener: Deno.TcpListener,
    hostname: string,
  ): Promise<Connection> {
    const { port } = listener.addr;
    const accepting = listener.accept();
    const { connecting } = inNetns(netns, () => ({
      connecting: Deno.connect({ hostname, port, autoSelectFamily: false }),
    }));
    return new Connection([await connecting, await accepting]);
  }

  /** What a program sees that waits for an answer, which comes now. */
  async answered(): Promise<string> {
    const [, server] = this.#ends;
    await server?.write(new Uint8Array(1)).catch(() => {});
    return await this.#waiting;
  }

  [Symbol.dispose](): void {
    for (const end of this.#ends) end.close();
  }
}

netnsTest(
  "endConnections() aborts connections through a lost gateway, of any kind of socket, and no others",
  async () => {
    await using temp = await tempNetns("end");
    using netns = Netns.open(temp.path);
    await markConnections(temp);
    using stack = new DisposableStack();
    const opened: [Through, Connection][] = [];
    const listeners: Deno.TcpListener[] = [];
    for (const through of ["lost", "other", "none"] as const) {
      const listener = stack.use(
        inNetns(
          netns,
          () => Deno.listen({ hostname: "::", port: PORTS[through] }),
        ),
      );
      listeners.push(listener);
      for (const hostname of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) {
        const open = await Connection.open(netns, listener, hostname);
        opened.push([through, stack.use(open)]);
      }
    }
    // One that has had no answer.
    const peer = { address: Address.parse("127.0.0.1"), port: PORTS.lost };
    using unanswered = openDatagramSocket(peer, { netns });
    unanswered.sendNow(new Uint8Array(1));
    const signal = AbortSignal.abort();
    await assert.rejects(endConnections([LOST], { netns, signal }), /abort/i);
    const ended = await endConnections([LOST], { netns });
    assert.deepEqual(ended, { aborted: 3, forgotten: 3 });
    assert.deepEqual(await protocolsThrough(LOST, netns), [UDP]);
    assert.deepEqual(await protocolsThrough(OTHER, netns), [TCP, TCP, TCP]);
    for (const [through, connection] of opened) {
      const seen = await connection.answered();
      if (through === "lost") assert.match(seen, ABORTED);
      else assert.equal(seen, "read 1", through);
    }
    const again = await endConnections([LOST], { netns });
    assert.deepEqual(again, { aborted: 0, forgotten: 0 });
    // Servers go on listening.
    const [listener] = listeners;
    assert.ok(listener);
    using later = await Connection.open(netns, listener, "127.0.0.1");
    assert.equal(await later.answered(), "read 1");
  },
);

/** A datagram and its answer. */
const DATAGRAMS = `use IO::Socket::INET;
my @udp = (Proto => "udp");
my $server = IO::Socket::INET->new(@udp, LocalAddr => "127.0.0.1", LocalPort => ${PORTS.lost}) or die $@;
my $client = IO::Socket::INET->new(@udp, PeerAddr => "127.0.0.1", PeerPort => ${PORTS.lost}) or die $@;
$client->send("?"); $server->recv(my $text, 9);
$server->send("!"); $client->recv($text, 9);`;

netnsTest(
  "endConnections() has connections through a lost gateway forgotten, and no others, where the kernel lists no sockets",
  async () => {
    await using temp = await tempNetns("unlisted");
    using netns = Netns.open(temp.path);
    await markConnections(temp);
    await temp.exec("perl", "-e", DATAGRAMS);
    using stack = new DisposableStack();
    const hostname = "127.0.0.1";
    for (const through of ["lost", "other", "none"] as const) {
      const listener = stack.use(
        inNetns(netns, () => Deno.listen({ hostname, port: PORTS[through] })),
      );
      stack.use(await Connection.open(netns, listener, hostname));
    }
    // As of a kernel without CONFIG_INET_DIAG.
    const { list } = TcpSockets.prototype;
    TcpSockets.prototype.list = () => Promise.resolve(undefined);
    try {
      const ended = await endConnections([LOST], { netns });
      assert.deepEqual(ended, { aborted: undefined, forgotten: 1 });
    } finally {
      TcpSockets.prototype.list = list;
    }
    assert.deepEqual(await protocolsThrough(LOST, netns), [UDP]);
    assert.deepEqual(await protocolsThrough(OTHER, netns), [TCP]);
  },
);

netnsTest("endConnections() ends very many connections of a pod", async () => {
  await using temp = await tempNetns("many");
  using netns = Netns.open(temp.path);
  await markConnections(temp);
  using stack = new DisposableStack();
  const hostname = "127.0.0.1";
  const listeners = (["other", "lost"] as const).map((through) =>
    stack.use(
      inNetns(netns, () => Deno.listen({ hostname, port: PORTS[through] })),
    )
  );
  for (let i = 0; i < MANY; i++) {
    for (const listener of listeners) {
      stack.use(await Connection.open(netns, listener, hostname));
    }
  }
  const ended = await endConnections([LOST], { netns });
  assert.deepEqual(ended, { aborted: MANY, forgotten: MANY });
  assert.equal((await protocolsThrough(OTHER, netns)).length, MANY);
  assert.deepEqual(await protocolsThrough(LOST, netns), []);
});

/**
 * Sends by a connection of its own from a page that never comes: a fault for
 * userfaultfd(2), which nothing answers. In the meantime the kernel has the
 * connection's socket locked. System calls by their numbers on x86_64; the
 * ioctls UFFDIO_API and UFFDIO_REGISTER of `<linux/userfaultfd.h>`.
 */
const HOLDER = `use Socket;
my $address = pack_sockaddr_in(${PORTS.lost}, INADDR_LOOPBACK);
socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
bind($listener, $address) && listen($listener, 1) or die "listen: $!";
socket(my $client, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
connect($client, $address) && accept(my $server, $listener) or die "connect: $!";
my $fd = syscall(323, 0);
open(my $faults, "+<&=", $fd) or die "userfaultfd: $!";
my $api = pack("Q3", 0xaa, 0, 0);
ioctl($faults, 0xc018aa3f, $api) or die "UFFDIO_API: $!";
my $page = syscall(9, 0, 4096, 3, 0x22, -1, 0);
my $range = pack("Q4", $page, 4096, 1, 0);
ioctl($faults, 0xc020aa00, $range) or die "UFFDIO_REGISTER: $!";
syscall(44, fileno($client), $page, 4096, 0, 0, 0);`;

netnsTest(
  "endConnections() does not wait for a program that keeps its socket locked",
  async () => {
    await using temp = await tempNetns("held");
    using netns = Netns.open(temp.path);
    await markConnections(temp);
    const stop = new AbortController();
    using _limit = startTimer(LIMIT_MS, () => stop.abort());
    const holder = new Deno.Command("nsenter", {
      args: [`--net=${temp.path}`, "perl", "-e", HOLDER],
      signal: stop.signal,
    }).spawn();
    let ended;
    try {
      await eventually("the program to send", async () => {
        const file = `/proc/${holder.pid}/wchan`;
        return await Deno.readTextFile(file) === "handle_userfault";
      });
      ended = await endConnections([LOST], { netns });
      assert.equal(ended.aborted, 0);
      // Both ends are this pod's; the kernel tracks one connection.
      assert.equal(ended.forgotten, 1);
      assert.ok(ended.held);
    } finally {
      stop.abort();
      await holder.status;
    }
    await ended.held;
    const again = await endConnections([LOST], { netns });
    assert.deepEqual(again, { aborted: 0, forgotten: 0 });
  },
);
