import assert from "node:assert/strict";
import { Netns, readSysctl } from "../../lib/linux/mod.ts";
import {
  linkAddVeth,
  linkDelete,
  linkSet,
  NetlinkError,
} from "../../lib/netlink/mod.ts";
import { linkAddBridge } from "../lab/netlink_requests.ts";
import { openIn } from "./netlink_testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const MAC = "02:00:0a:01:02:03";
const PEER_MAC = "02:00:0a:01:02:04";

/** What `ip -d -j link show NAME` says; undefined when there is no such link. */
async function ipLink(
  temp: TempNetns,
  name: string,
): Promise<Record<string, unknown> | undefined> {
  return (await temp.ipJson("link")).find((row) => row["ifname"] === name);
}

netnsTest(
  "linkAddVeth() makes the peer directly in another namespace",
  async () => {
    await using host = await tempNetns("host");
    await using pod = await tempNetns("pod");
    using podNetns = Netns.open(pod.path);
    using socket = openIn(host);
    await socket.execute([linkAddVeth({
      name: "vethhost",
      mac: MAC,
      mtu: 1400,
      group: 7,
      queues: 1,
      peer: {
        name: "eth0",
        netns: podNetns,
        mac: PEER_MAC,
        mtu: 1300,
        queues: 1,
      },
    })]);

    const here = await ipLink(host, "vethhost");
    const there = await ipLink(pod, "eth0");
    assert.equal(here?.["address"], MAC);
    assert.equal(here?.["mtu"], 1400);
    assert.equal(here?.["group"], "7");
    assert.equal(here?.["num_tx_queues"], 1);
    assert.equal(here?.["operstate"], "DOWN");
    assert.equal(there?.["address"], PEER_MAC);
    assert.equal(there?.["mtu"], 1300);
    assert.equal(there?.["num_rx_queues"], 1);
    assert.equal(await ipLink(host, "eth0"), undefined);

    const link = await socket.getLink({ name: "vethhost" });
    assert.equal(link?.index, here?.["ifindex"]);
    assert.equal(link?.peerIndex, there?.["ifindex"]);
    assert.equal(typeof link?.peerNetnsId, "number");
  },
);

netnsTest(
  "linkAddVeth() without a namespace makes both ends here",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    await socket.execute([linkAddVeth({ name: "a", peer: { name: "b" } })]);
    const [a, b] = [
      await socket.getLink({ name: "a" }),
      await socket.getLink({ name: "b" }),
    ];
    assert.equal(a?.peerIndex, b?.index);
    assert.equal(b?.peerIndex, a?.index);
    assert.equal(a?.peerNetnsId, undefined);
  },
);

netnsTest(
  "linkAddVeth() leaves nothing when the peer's name is taken",
  async () => {
    await using host = await tempNetns("host");
    await using pod = await tempNetns("pod");
    await pod.ip("link", "add", "eth0", "type", "bridge");
    using podNetns = Netns.open(pod.path);
    using socket = openIn(host);
    const peer = { name: "eth0", netns: podNetns };
    const [error] = await socket.tryExecute([linkAddVeth({ name: "v", peer })]);
    assert.equal(
      error?.message,
      'Cannot create veth "v" with peer "eth0": kernel returned EEXIST',
    );
    assert.equal(await ipLink(host, "v"), undefined);
  },
);

netnsTest(
  "one execute() creates, configures and shows a link by its name",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    const alias = "COIL:default:0123456789abcdef:eth0";
    const link = await socket.executeAndGetLink([
      linkAddVeth({ name: "a", peer: { name: "b" } }),
      linkSet({ name: "b" }, { up: true }),
      linkSet({ name: "a" }, { ipv6AddrGenMode: "none" }),
      linkSet({ name: "a" }, {
        up: true,
        alias,
        group: 30116,
        mtu: 1280,
        mac: MAC,
        ipv4Conf: { rpFilter: 2, arpFilter: true },
      }),
    ], { name: "a" });

    const shown = await ipLink(temp, "a");
    assert.equal(shown?.["ifalias"], alias);
    assert.equal(shown?.["group"], "30116");
    assert.equal(shown?.["mtu"], 1280);
    assert.equal(shown?.["address"], MAC);
    assert.equal(shown?.["inet6_addr_gen_mode"], "none");
    assert((shown?.["flags"] as string[]).includes("UP"));
    assert.deepEqual(link, {
      index: shown?.["ifindex"],
      name: "a",
      mtu: 1280,
      mac: MAC,
      alias,
      kind: "veth",
      tunnel: undefined,
      txQueueLength: 1000,
      up: true,
      lowerUp: true,
      group: 30116,
      peerIndex: (await ipLink(temp, "b"))?.["ifindex"],
      peerNetnsId: undefined,
      masterIndex: undefined,
      ipv6AddrGenMode: "none",
      ipv4Conf: { rpFilter: 2, arpFilter: true },
      flags: link.flags,
    });
    using netns = Netns.open(temp.path);
    for (const [name, value] of [["rp_filter", "2"], ["arp_filter", "1"]]) {
      const path = `net/ipv4/conf/a/${name}`;
      assert.equal(readSysctl(path, { netns }), value);
    }
    // The link was made, governed and set up in one send: no address of its own.
    const addresses = await socket.listAddresses({ index: link.index });
    assert.deepEqual(addresses, []);
  },
);

netnsTest("linkSet() changes what it is told and leaves the rest", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  await socket.execute([
    linkAddVeth({ name: "a", peer: { name: "b" } }),
    linkAddBridge({ name: "br0", mac: MAC }),
    linkSet({ name: "a" }, { up: true, alias: "first", group: 5 }),
  ]);
  const bridge = await socket.getLink({ name: "br0" });
  const link = await socket.getLink({ name: "a" });
  assert(bridge && link);
  assert.equal(bridge.kind, "bridge");
  assert.equal(bridge.mac, MAC);

  const { index } = link;
  await socket.execute([linkSet({ index }, { master: bridge.index })]);
  assert.equal((await ipLink(temp, "a"))?.["master"], "br0");
  const port = await socket.getLink({ index });
  assert.equal(port?.masterIndex, bridge.index);
  assert.deepEqual([port?.alias, port?.group, port?.up], ["first", 5, true]);

  await socket.execute([
    linkSet({ index }, { master: 0 }),
    linkSet({ index }, { up: false }),
    linkSet({ index }, { rename: "renamed", alias: "" }),
  ]);
  const shown = await ipLink(temp, "renamed");
  assert.equal(shown?.["master"], undefined);
  assert.equal(shown?.["ifalias"], undefined);
  const renamed = await socket.getLink({ name: "renamed" });
  assert.deepEqual([renamed?.index, renamed?.up, renamed?.alias], [
    index,
    false,
    undefined,
  ]);
  assert.equal(await socket.getLink({ name: "a" }), undefined);
});

netnsTest("linkSet() takes aliases up to the kernel's limit", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  await socket.execute([linkAddBridge({ name: "br0" })]);
  const longest = "x".repeat(255);
  await socket.execute([linkSet({ name: "br0" }, { alias: longest })]);
  assert.equal((await ipLink(temp, "br0"))?.["ifalias"], longest);
  const [error] = await socket.tryExecute([
    linkSet({ name: "br0" }, { alias: `${longest}x` }),
  ]);
  assert.equal(error?.code, "ERANGE");
});

netnsTest(
  "linkSet() moves a link to another namespace under a new name",
  async () => {
    await using from = await tempNetns("from");
    await using to = await tempNetns("to");
    using target = Netns.open(to.path);
    using socket = openIn(from);
    const link = await socket.executeAndGetLink([
      linkAddVeth({ name: "a", peer: { name: "b" } }),
    ], { name: "a" });
    await socket.execute([
      linkSet({ index: link.index }, { netns: target, rename: "eth0" }),
    ]);
    assert.equal(await socket.getLink({ name: "a" }), undefined);
    assert.notEqual(await ipLink(to, "eth0"), undefined);
  },
);

netnsTest(
  "linkDelete() deletes one link, or a whole group and nothing else",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    const names = ["v0", "v1", "v2", "v3"];
    await socket.execute(
      names.map((name) =>
        linkAddVeth({ name, group: 77, peer: { name: `${name}p` } })
      ),
    );
    await socket.execute([
      linkAddVeth({ name: "other", group: 78, peer: { name: "otherp" } }),
      linkDelete({ name: "v0" }),
    ]);
    const left = async () =>
      (await socket.listLinks()).map(({ name }) => name).sort();
    assert.equal(
      (await left()).filter((name) => name.startsWith("v")).length,
      6,
    );
    await socket.execute([linkDelete({ group: 77 })]);
    assert.deepEqual(await left(), ["lo", "other", "otherp"]);

    const errors = await socket.tryExecute([
      linkDelete({ group: 77 }),
      linkDelete({ name: "v0" }),
      linkDelete({ index: 9999 }),
    ]);
    assert.deepEqual(errors.map((error) => error?.code), [
      "ENODEV",
      "ENODEV",
      "ENODEV",
    ]);
  },
);

netnsTest("listLinks() tells the same as ip, and as getLink()", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  const pairs = Array.from(
    { length: 60 },
    (_, i) => linkAddVeth({ name: `v${i}`, group: i, peer: { name: `p${i}` } }),
  );
  await socket.execute(pairs);
  const links = await socket.listLinks();
  const shown = await temp.ipJson("link");
  assert.equal(links.length, 121);
  assert.deepEqual(
    links.map(({ index, name, mtu, mac }) => ({ index, name, mtu, mac })),
    shown.map((row) => ({
      index: row["ifindex"],
      name: row["ifname"],
      mtu: row["mtu"],
      mac: row["address"],
    })),
  );
  for (const link of links.slice(0, 5)) {
    assert.deepEqual(await socket.getLink({ index: link.index }), link);
  }
});

netnsTest(
  "execute() throws the first failure with its index; the kernel goes on",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    await assert.rejects(
      socket.execute([
        linkAddBridge({ name: "br0" }),
        linkSet({ name: "br0" }, { mtu: 1 }),
        linkDelete({ name: "missing" }),
        linkAddBridge({ name: "br1" }),
      ]),
      (error) =>
        error instanceof NetlinkError && error.index === 1 &&
        error.code === "EINVAL" &&
        error.message ===
          'Cannot set link "br0": kernel returned EINVAL (mtu less than device minimum)',
    );
    const names = (await socket.listLinks()).map(({ name }) => name).sort();
    assert.deepEqual(names, ["br0", "br1", "lo"]);
  },
);

netnsTest(
  "a request with a namespace that is closed already is refused before it is sent",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    const netns = Netns.open(temp.path);
    const request = linkAddVeth({ name: "a", peer: { name: "b", netns } });
    netns[Symbol.dispose]();
    await assert.rejects(socket.execute([request]), TypeError);
    assert.equal(await ipLink(temp, "a"), undefined);
  },
);

netnsTest(
  "listLinks() leaves out what is more than it is to list",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    await socket.execute([linkAddBridge({ name: "br0" })]);
    const [lo, ...more] = await socket.listLinks({ atMost: 1 });
    assert.equal(lo?.name, "lo");
    assert.deepEqual(more, []);
  },
);
