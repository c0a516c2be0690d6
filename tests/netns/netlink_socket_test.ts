import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { NETLINK_ROUTE, Netns, openNetlink } from "../../lib/linux/mod.ts";
import {
  addressAdd,
  addressDelete,
  linkAddVeth,
  linkDelete,
  linkSet,
  routeAdd,
  RouteSocket,
} from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";
import { awaitedLater } from "../lab/wait.ts";

netnsTest(
  "three sends connect a pod, and its gateway answers",
  async () => {
    await using host = await tempNetns("host");
    await using pod = await tempNetns("pod");
    using hostNetns = Netns.open(host.path);
    using podNetns = Netns.open(pod.path);
    let sends = 0;
    const trace = { sent: () => void sends++, received: () => {} };
    const open = (netns: Netns) =>
      RouteSocket.over(openNetlink(NETLINK_ROUTE, { netns }), trace);
    using hostSocket = open(hostNetns);
    using podSocket = open(podNetns);
    const [ipv4, ipv6] = [Address.parse("10.1.2.3"), Address.parse("fd00::3")];
    const [gateway4, gateway6] = [
      Address.parse("169.254.1.1"),
      Address.parse("fe80::1"),
    ];

    const { index, peerIndex } = await hostSocket.executeAndGetLink([
      linkAddVeth({
        name: "veth0",
        queues: 1,
        peer: { name: "eth0", netns: podNetns, queues: 1 },
      }),
      linkSet({ name: "veth0" }, { ipv6AddrGenMode: "none" }),
      linkSet({ name: "veth0" }, { up: true, alias: "pod" }),
    ], { name: "veth0" });
    assert(peerIndex);
    await podSocket.execute([
      linkSet({ index: peerIndex }, { up: true }),
      addressAdd({ index: peerIndex, prefix: { address: ipv4, length: 32 } }),
      addressAdd({
        index: peerIndex,
        prefix: { address: ipv6, length: 128 },
        noDad: true,
      }),
      routeAdd({
        family: "ipv4",
        destination: Prefix.host(gateway4),
        index: peerIndex,
      }),
      routeAdd({ family: "ipv4", gateway: gateway4, index: peerIndex }),
      routeAdd({ family: "ipv6", gateway: gateway6, index: peerIndex }),
    ]);
    await hostSocket.execute([
      addressAdd({
        index,
        prefix: { address: gateway4, length: 32 },
        scope: "link",
      }),
      addressAdd({
        index,
        prefix: { address: gateway6, length: 64 },
        scope: "link",
        noDad: true,
      }),
      routeAdd({ family: "ipv4", destination: Prefix.host(ipv4), index }),
      routeAdd({ family: "ipv6", destination: Prefix.host(ipv6), index }),
    ]);
    assert.equal(sends, 3);
    await host.exec("ping", "-c1", "-w20", "10.1.2.3");
    await host.exec("ping", "-c1", "-w20", "fd00::3");
    await pod.exec("ping", "-c1", "-w20", "169.254.1.1");
  },
);

netnsTest("changes do not hold up the event loop", async () => {
  await using temp = await tempNetns();
  using netns = Netns.open(temp.path);
  using socket = RouteSocket.open({ netns });
  const names = Array.from({ length: 8 }, (_, i) => `v${i}`);
  let ticks = 0;
  // A busy machine may let the process stand still for as long as the kernel works.
  for (let tries = 0; tries < 20 && ticks < 3; tries++) {
    await socket.execute(
      names.map((name) => linkAddVeth({ name, peer: { name: `${name}p` } })),
    );
    ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    try {
      // One send, in which the kernel waits for a grace period after another.
      await socket.execute(names.map((name) => linkDelete({ name })));
    } finally {
      clearInterval(timer);
    }
  }
  assert(ticks >= 3, `the event loop turned ${ticks} times in the meantime`);
});

netnsTest("many callers share one socket", async () => {
  await using temp = await tempNetns();
  using netns = Netns.open(temp.path);
  using socket = RouteSocket.open({ netns });
  const names = Array.from({ length: 40 }, (_, i) => `v${i}`);
  const links = await Promise.all(names.map((name) =>
    socket.executeAndGetLink([
      linkAddVeth({ name, peer: { name: `${name}p` } }),
      linkSet({ name }, { alias: `alias of ${name}` }),
    ], { name })
  ));
  assert.deepEqual(links.map((link) => link.name), names);
  assert.deepEqual(
    links.map((link) => link.alias),
    names.map((name) => `alias of ${name}`),
  );
  const lists = await Promise.all([
    socket.listLinks(),
    socket.listAddresses(),
    socket.listLinks(),
  ]);
  assert.deepEqual(lists.map((list) => list.length), [81, 2, 81]);
});

netnsTest(
  "a list that others keep changing is asked for again until it is right",
  async () => {
    await using temp = await tempNetns();
    using netns = Netns.open(temp.path);
    let interrupted = 0;
    using reader = RouteSocket.over(openNetlink(NETLINK_ROUTE, { netns }), {
      sent: () => {},
      received: (bytes) => interrupted += isInterrupted(bytes) ? 1 : 0,
    });
    using writer = RouteSocket.open({ netns });
    // More than one part of a dump holds, so that it can be interrupted.
    const prefix = Prefix.parse("10.128.0.0/16");
    const entry = (i: number) => ({
      index: 1,
      prefix: { address: prefix.nth(BigInt(i)), length: 32 },
    });
    const stable = 1000;
    await writer.execute(
      Array.from({ length: stable }, (_, i) => addressAdd(entry(i))),
    );
    const stop = new AbortController();
    const churn = awaitedLater((async () => {
      const changing = entry(stable);
      while (!stop.signal.aborted) {
        await writer.execute([addressAdd(changing), addressDelete(changing)]);
      }
    })());
    try {
      for (let reads = 0; reads < 20 || interrupted === 0; reads++) {
        assert(reads < 500, "no list was ever interrupted");
        const found = await reader.listAddresses({ family: "ipv4" });
        const texts = new Set(found.map((each) => String(each.prefix.address)));
        assert.equal(texts.size, found.length, "an entry came twice");
        const others = found.length - stable - 1; // 127.0.0.1 is there too
        assert(others === 0 || others === 1, `${found.length} entries`);
      }
    } finally {
      stop.abort();
      await churn;
    }
  },
);

/** Whether the kernel marked a message of this datagram with NLM_F_DUMP_INTR. */
function isInterrupted(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (
    let at = 0;
    at < bytes.byteLength;
    at += (view.getUint32(at, true) + 3) & ~3
  ) {
    if ((view.getUint16(at + 6, true) & 0x10) !== 0) return true;
  }
  return false;
}

netnsTest("NETLINK_TRACE=1 shows every message on standard error", async () => {
  await using temp = await tempNetns();
  const url = (path: string) =>
    JSON.stringify(new URL(`../../${path}`, import.meta.url).href);
  const script = `
    import { Netns } from ${url("lib/linux/mod.ts")};
    import { RouteSocket } from ${url("lib/netlink/mod.ts")};
    import { linkAddBridge } from ${url("tests/lab/netlink_requests.ts")};
    using netns = Netns.open(${JSON.stringify(temp.path)});
    using socket = RouteSocket.open({ netns });
    const bridge = linkAddBridge({ name: "br0" });
    await socket.tryExecute([bridge, bridge]);
    await socket.listLinks();
  `;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "-"],
    cwd: new URL("../..", import.meta.url),
    env: { NETLINK_TRACE: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stdin = child.stdin.getWriter();
  await stdin.write(new TextEncoder().encode(script));
  await stdin.close();
  const { code, stdout, stderr } = await child.output();
  const text = new TextDecoder().decode(stderr);
  assert.equal(code, 0, text);
  assert.equal(stdout.byteLength, 0);
  assert.match(
    text,
    /^netlink -> seq 1 RTM_NEWLINK flags 0x605 \d+ bytes create bridge "br0"$/m,
  );
  assert.match(text, /^netlink <- seq 1 NLMSG_ERROR .* ok$/m);
  assert.match(text, /^netlink <- seq 2 NLMSG_ERROR .* EEXIST/m);
  assert.match(
    text,
    /^netlink -> seq 3 RTM_GETLINK flags 0x301 \d+ bytes list links$/m,
  );
  assert.match(text, /^netlink <- seq 3 NLMSG_DONE/m);
  assert.match(text, /^ {2}0000 {2}([0-9a-f]{2} ?){16}$/m);
});

netnsTest("disposing a socket lets what is being sent finish", async () => {
  await using temp = await tempNetns();
  using netns = Netns.open(temp.path);
  const socket = RouteSocket.open({ netns });
  const running = socket.execute([
    linkAddVeth({ name: "a", peer: { name: "b" } }),
  ]);
  for (let turns = 0; turns < 20; turns++) await Promise.resolve();
  socket[Symbol.dispose]();
  await assert.rejects(socket.listLinks(), TypeError);
  await running;
  using other = RouteSocket.open({ netns });
  assert.equal((await other.getLink({ name: "a" }))?.kind, "veth");
});

netnsTest(
  "a list that broke off does not keep the next from beginning",
  async () => {
    await using temp = await tempNetns();
    using netns = Netns.open(temp.path);
    const prefix = Prefix.parse("10.128.0.0/16");
    using writer = RouteSocket.open({ netns });
    await writer.execute(Array.from({ length: 1000 }, (_, i) =>
      addressAdd({
        index: 1,
        prefix: { address: prefix.nth(BigInt(i)), length: 32 },
      })));
    let breaks = 1;
    using reader = RouteSocket.over(openNetlink(NETLINK_ROUTE, { netns }), {
      sent: () => {},
      received() {
        if (breaks-- > 0) throw new TypeError("broken off");
      },
    });
    await assert.rejects(reader.listAddresses(), TypeError);
    const found = await reader.listAddresses({ family: "ipv4" });
    assert.equal(found.length, 1001); // 127.0.0.1 is there too
  },
);
