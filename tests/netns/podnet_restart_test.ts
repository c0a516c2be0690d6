import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { type RandomBytes, RouteSocket } from "../../lib/netlink/mod.ts";
import { PodCheckError } from "../../lib/podnet/mod.ts";
import { planPod } from "../../lib/podnet/plan/plan.ts";
import { connectPod } from "../../lib/podnet/pods/setup.ts";
import {
  addPod,
  addressesOf,
  addVeth,
  NODE,
  routesOf,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "KN-4 list() gives pool, container, ifname and addresses back after a restart",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await addPod(node, 1);
    await addPod(node, 2, {
      pool: "global",
      addresses: addressesOf(2, "ipv4"),
    });
    await addPod(node, 3, {
      ifname: "net1",
      addresses: addressesOf(3, "ipv6"),
    });
    const pods = await node.restart().list();
    assert.deepEqual(
      pods.map(({ pool, containerId, ifname, addresses }) => [
        pool,
        containerId,
        ifname,
        JSON.stringify(addresses),
      ]).toSorted(),
      [
        ["default", "cid1", "eth0", '{"ipv4":"10.1.2.1","ipv6":"fd02::1"}'],
        ["default", "cid3", "net1", '{"ipv6":"fd02::3"}'],
        ["global", "cid2", "eth0", '{"ipv4":"10.1.2.2"}'],
      ],
    );
  },
);

netnsTest(
  "survey() lists an unfinished ADD without addresses, and reports what is not ours without touching it",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { host } = node;
    for (const name of ["half0", "bad0"]) {
      await addVeth(host, name);
      await host.ip("link", "set", name, "up");
    }
    await host.ip("link", "set", "half0", "alias", "COIL:default:half:eth0");
    await host.ip("link", "set", "bad0", "alias", "COIL:default:eth0");
    await host.ip("route", "add", "10.9.9.9", "dev", "node0", "table", "116");
    await host.ip(
      ...["route", "add", "10.9.9.8", "dev", "bad0"],
      ...["table", "116", "proto", "30"],
    );
    const { request, result } = await addPod(node, 1);
    const before = await routesOf(host, 116);

    const later = node.restart();
    await later.init();
    await later.finishHusks();
    const survey = await later.survey();
    const half = survey.pods.find(({ containerId }) => containerId === "half");
    assert.deepEqual(half?.addresses, {});
    assert.equal(half?.hostName, "half0");
    assert.deepEqual(
      survey.malformed.map(({ name, alias }) => [name, alias]),
      [["bad0", "COIL:default:eth0"]],
    );
    assert.deepEqual(
      survey.misplacedRoutes.map(({ destination }) => String(destination))
        .toSorted(),
      ["10.9.9.8/32", "10.9.9.9/32"],
    );
    assert.deepEqual(survey.husks, []);
    assert.deepEqual(await routesOf(host, 116), before);
    assert.ok(before.some((line) => line.includes(result.hostName)));
    assert.ok(await later.beginTeardown(request));
    assert.ok(
      await later.beginTeardown({ containerId: "half", ifname: "eth0" }),
    );
  },
);

netnsTest(
  "a pod gets its addresses only when its link says whose they are, should coild be killed in between",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    using hostNetns = Netns.open(node.host.path);
    using netns = Netns.open(pod.path);
    using host = RouteSocket.open({ netns: hostNetns });
    const seen: unknown[] = [];
    const send = host.tryExecute.bind(host);
    host.tryExecute = async (requests) => {
      const [veth] = await node.host.ipJson("link", "show", "type", "veth");
      const found = await pod.ip("-4", "address", "show");
      const hasAddress = found.includes("10.1.2.1");
      seen.push({ alias: veth?.["ifalias"], hasAddress });
      return await send(requests);
    };
    const plan = planPod({
      pool: "default",
      containerId: "cid1",
      ifname: "eth0",
      addresses: addressesOf(1),
      nodeAddresses: NODE,
      hostVethName: "veth1",
      hostMac: "02:00:00:00:00:01",
      podMac: "02:00:00:00:00:02",
      mtu: 0,
      tableId: 116,
      protocolId: 30,
      gatewayMode: "link-local",
      sources: "own",
    });
    const refuse = () => Promise.resolve(false);
    const context = {
      host,
      deletions: host,
      hostNetns,
      netns,
      names: ["veth1"],
      indexes: { next: () => 2 ** 30 },
      clear: refuse,
      clearPeer: refuse,
    };
    await connectPod(context, plan);
    // Before the link is made, and before it has its routes.
    assert.deepEqual(seen, [
      { alias: undefined, hasAddress: false },
      { alias: "COIL:default:cid1:eth0", hasAddress: true },
    ]);
  },
);

netnsTest(
  "routedWithin() finds the address of a pod whose alias was changed by hand",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request, result } = await addPod(node, 1);
    await node.host.ip("link", "set", result.hostName, "alias", "mine");
    assert.deepEqual(await node.net.list(), []);
    const within = async (text: string) =>
      (await node.net.routedWithin([Prefix.parse(text)])).map(String);
    assert.deepEqual(await within("10.1.2.0/27"), ["10.1.2.1"]);
    assert.deepEqual(await within("fd02::/123"), ["fd02::1"]);
    assert.deepEqual(await within("10.1.2.32/27"), []);

    // Its DEL finds nothing; only the runtime takes the namespace away.
    assert.equal(await node.net.beginTeardown(request), undefined);
    assert.deepEqual(await within("10.1.2.0/27"), ["10.1.2.1"]);
  },
);

netnsTest(
  "init() leaves a foreign rule of our priority alone and says that pods are not routed",
  async () => {
    await using node = await testNode();
    const { host } = node;
    await host.ip("rule", "add", "priority", "2000", "lookup", "99");
    await host.ip("-6", "rule", "add", "priority", "2000", "lookup", "116");
    await host.ip("-6", "rule", "add", "priority", "2000", "lookup", "99");
    const rules = await host.ip("rule", "show");
    const { problems } = await node.net.init();
    assert.deepEqual(problems.map(({ message }) => message), [
      "Cannot route ipv4 pods by table 116: priority 2000 has a rule for table 99 that is not Coil's; remove it, or set another --pod-rule-prio for coild",
    ]);
    assert.equal(await host.ip("rule", "show"), rules);
  },
);

netnsTest(
  "--register-from-main: list() takes addresses from the main table where the pod table has none",
  async () => {
    await using node = await testNode();
    const { host } = node;
    for (
      const [name, protocol] of [["a0", "30"], ["b0", "boot"], ["c0", "static"]]
    ) {
      await host.ip(
        "link",
        "add",
        `${name}`,
        "type",
        "veth",
        "peer",
        "name",
        `${name}p`,
      );
      await host.ip(
        "link",
        "set",
        `${name}`,
        "alias",
        `COIL:default:${name}:eth0`,
        "up",
      );
      const octet = `${name}`.charCodeAt(0);
      await host.ip(
        ...["route", "add", `10.1.3.${octet}`, "dev", `${name}`],
        ...["proto", `${protocol}`, "scope", "link"],
      );
    }
    await addPod(node, 1);
    await host.ip(
      "route",
      "add",
      "10.1.3.1",
      "dev",
      (await hostName()) ?? "",
      "proto",
      "30",
    );
    const found = async (registerFromMain: boolean) => {
      const pods = await node.restart({ registerFromMain }).list();
      return Object.fromEntries(
        pods.map((pod) => [pod.containerId, pod.addresses.ipv4?.toString()]),
      );
    };
    assert.deepEqual(await found(false), {
      a0: undefined,
      b0: undefined,
      c0: undefined,
      cid1: "10.1.2.1",
    });
    assert.deepEqual(await found(true), {
      a0: "10.1.3.97",
      b0: "10.1.3.98",
      c0: undefined,
      cid1: "10.1.2.1",
    });

    async function hostName(): Promise<string | undefined> {
      return (await node.net.list()).find((p) => p.containerId === "cid1")
        ?.hostName;
    }
  },
);

netnsTest("W18 check() says what is missing, on either side", async () => {
  await using node = await testNode();
  await node.net.init();
  const problemsAfter = async (
    n: number,
    harm: (hostName: string, pod: string) => Promise<unknown>,
  ): Promise<string> => {
    const { pod, request, result } = await addPod(node, n);
    await node.net.check(request);
    await harm(result.hostName, pod.name);
    let problems = "";
    await assert.rejects(node.net.check(request), (error) => {
      assert.ok(error instanceof PodCheckError);
      problems = error.problems.join("\n");
      return true;
    });
    return problems.replaceAll(result.hostName, "HOST")
      .replaceAll(pod.path, "NETNS");
  };
  const { ip } = node.host;
  const inPod = (pod: string, ...args: string[]) =>
    ip("netns", "exec", pod, "ip", ...args);

  assert.equal(
    await problemsAfter(
      1,
      () => ip("route", "delete", "10.1.2.1", "table", "116"),
    ),
    'host has no route to "10.1.2.1" in table 116',
  );
  assert.equal(
    await problemsAfter(
      2,
      () =>
        ip("-6", "route", "replace", "fd02::2", "dev", "node0", "table", "116"),
    ),
    'host route to "fd02::2" does not lead to "HOST"',
  );
  assert.match(
    await problemsAfter(3, (name) => ip("link", "set", name, "down")),
    /^host link "HOST" is down\nhost has no route to "10\.1\.2\.3"/,
  );
  assert.equal(
    await problemsAfter(
      4,
      (_, pod) => inPod(pod, "route", "delete", "default"),
    ),
    'interface "eth0" in "NETNS" has no ipv4 default route',
  );
  assert.match(
    await problemsAfter(
      5,
      (_, pod) => inPod(pod, "address", "delete", "fd02::5/128", "dev", "eth0"),
    ),
    /^interface "eth0" in "NETNS" does not have address "fd02::5"$/,
  );
  assert.match(
    await problemsAfter(
      6,
      (_, pod) =>
        inPod(pod, "link", "set", "eth0", "name", "eth7")
          .catch(() =>
            inPod(pod, "link", "set", "eth0", "down")
              .then(() => inPod(pod, "link", "set", "eth0", "name", "eth7"))
          ),
    ),
    /^interface "eth0" in "NETNS" is missing$/,
  );
  assert.equal(
    await problemsAfter(7, (name) => ip("link", "delete", name)),
    "it has no host link",
  );
  assert.match(
    await problemsAfter(
      8,
      (_, pod) => inPod(pod, "link", "set", "eth0", "down"),
    ),
    /^interface "eth0" in "NETNS" is down\n/,
  );
});

netnsTest(
  "check() looks at the host's end alone when there is no network namespace to look into",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request } = await addPod(node, 1);
    await pod.ip("route", "delete", "default");
    const { netnsPath: _unused, ...hostOnly } = request;
    await node.net.check(hostOnly);
    const gone = { ...request, netnsPath: "/run/netns/ct-absent" };
    await assert.rejects(node.net.check(gone), /ct-absent/);
  },
);

netnsTest(
  "check() does not take a link for a network: its ADD may have ended before any address",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request } = await addPod(node, 1);
    await node.net.check(request);
    await assert.rejects(
      node.net.check({ ...request, addresses: {} }),
      /"cid1": it has no address$/,
    );
  },
);

netnsTest(
  "KN-3 openNetns() finds the right pod's namespace, by memory and by looking",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const families = ["dual", "ipv4", "ipv6"] as const;
    const made: Awaited<ReturnType<typeof addPod>>[] = [];
    for (const [i, family] of families.entries()) {
      made.push(
        await addPod(node, i + 1, { addresses: addressesOf(i + 1, family) }),
      );
    }
    for (const net of [node.net, node.restart()]) {
      for (const { pod, request } of made) {
        const listed = (await net.list())
          .find(({ containerId }) => containerId === request.containerId);
        assert.ok(listed);
        using found = await net.openNetns(listed);
        using expected = Netns.open(pod.path);
        assert.equal(found?.sameAs(expected), true);
      }
    }
    const [first] = made;
    assert.ok(first);
    const listed = (await node.net.list())
      .find(({ containerId }) => containerId === first.request.containerId);
    assert.ok(listed);
    await first.pod.ip("link", "delete", "eth0");
    assert.equal(await node.net.openNetns(listed), undefined);
  },
);

netnsTest(
  "W15 refreshRoutes() gives existing pods the node's new addresses as source",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { result } = await addPod(node, 1);
    await node.host.ip("address", "add", "10.20.30.42/24", "dev", "node0");
    assert.equal(await node.net.refreshRoutes(), 0);
    node.net.setNodeAddresses({ ...NODE, ipv4: Address.parse("10.20.30.42") });
    assert.equal(await node.net.refreshRoutes(), 1);
    assert.deepEqual(await routesOf(node.host, 116), [
      `10.1.2.1 dev ${result.hostName} proto 30 scope link src 10.20.30.42`,
      `fd02::1 dev ${result.hostName} proto 30 src fd10::41 metric 1024 pref medium`,
    ]);
    assert.equal(await node.net.refreshRoutes(), 0);

    // An address that the node does not have is no source, and no error.
    node.net.setNodeAddresses({ ...NODE, ipv4: Address.parse("192.0.2.1") });
    assert.equal(await node.net.refreshRoutes(), 1);
    const [ipv4] = await routesOf(node.host, 116);
    assert.equal(ipv4, `10.1.2.1 dev ${result.hostName} proto 30 scope link`);
    assert.equal(await node.net.refreshRoutes(), 0);
  },
);

netnsTest("init() prepares a node, and again changes nothing", async () => {
  await using node = await testNode();
  const { host } = node;
  await host.exec("sysctl", "-q", "-w", "net.ipv4.ip_forward=0");
  await host.exec("sysctl", "-q", "-w", "net.ipv6.conf.all.forwarding=0");
  const report = await node.net.init();
  assert.deepEqual(report.problems, []);
  const state = async () =>
    [
      await host.exec("sysctl", "-n", "net.ipv4.ip_forward"),
      await host.exec("sysctl", "-n", "net.ipv6.conf.all.forwarding"),
      await host.ip("rule"),
      await host.ip("-6", "rule"),
    ].join("");
  const first = await state();
  assert.equal(first.match(/^1$/gm)?.length, 2);
  assert.equal(first.match(/^2000:\tfrom all lookup 116/gm)?.length, 2);
  await node.restart().init();
  assert.equal(await state(), first);
});

netnsTest("init() adds no rule where any rule has that priority", async () => {
  await using node = await testNode();
  await node.host.ip("rule", "add", "priority", "2000", "table", "77");
  await node.net.init();
  assert.doesNotMatch(await node.host.ip("rule"), /lookup 116/);
  assert.match(await node.host.ip("-6", "rule"), /2000:\tfrom all lookup 116/);
});

netnsTest(
  "init() takes the MTU from the link towards the outside, else leaves it to the kernel",
  async () => {
    await using node = await testNode();
    assert.equal((await node.net.init()).mtu, 0);
    await node.host.ip("link", "set", "node0", "mtu", "1420");
    await node.host.ip("-6", "route", "add", "2001::/16", "via", "fd10::1");
    assert.equal((await node.net.init()).mtu, 1420);
    const { pod } = await addPod(node, 1);
    const [eth0] = await pod.ipJson("link", "show", "eth0");
    assert.equal(eth0?.["mtu"], 1420);
    assert.equal((await node.restart({ mtu: 1300 }).init()).mtu, 1300);
  },
);

netnsTest(
  "the rendered plan, run by ip, gives what setup() gives",
  async () => {
    // Golden files prove nothing unless `ip` agrees with them.
    await using node = await testNode();
    const { pod, result } = await addPod(node, 1);
    const golden = await Deno.readTextFile(
      new URL("../golden/podnet/dual.txt", import.meta.url),
    );
    await using other = await testNode();
    const byHand = await other.pod();
    const lines = golden
      .replaceAll("POD", byHand.name)
      .replaceAll("veth2fb6b94f", result.hostName)
      .replaceAll("02:00:00:00:00:01", result.hostMac)
      .replaceAll("02:00:00:00:00:02", result.podMac)
      .replaceAll(
        "fe80::ff:fe00:1",
        await linkLocal(node.host, result.hostName),
      )
      .replaceAll("fe80::ff:fe00:2", await linkLocal(pod, "eth0"))
      .replaceAll(/10\.1\.2\.3\b/g, "10.1.2.1")
      .replaceAll(" mtu 1450", "")
      .replaceAll("COIL:default:cid0:", "COIL:default:cid1:")
      .trimEnd().split("\n");
    for (const line of lines) {
      await other.host.exec("sh", "-c", line);
    }
    const state = async (host: typeof pod, inner: typeof pod) =>
      [
        ...await routesOf(host, "116"),
        ...await routesOf(host, "main"),
        ...await routesOf(inner, "main"),
        await shownAddresses(host, result.hostName),
        await shownAddresses(inner, "eth0"),
      ].join("\n");
    assert.equal(await state(node.host, pod), await state(other.host, byHand));

    async function linkLocal(netns: typeof pod, name: string): Promise<string> {
      using ns = Netns.open(netns.path);
      using socket = RouteSocket.open({ netns: ns });
      const link = await socket.getLink({ name });
      const all = await socket.listAddresses({
        index: link?.index ?? 0,
        family: "ipv6",
      });
      return String(
        all.find(({ prefix }) => prefix.address.isLinkLocal)?.prefix.address,
      );
    }
    async function shownAddresses(
      netns: typeof pod,
      name: string,
    ): Promise<string> {
      const text = await netns.ip("address", "show", "dev", name);
      return text.replaceAll(/^\d+: /gm, "").replaceAll(/@if\d+/g, "")
        .replaceAll(/link-netns(id)? \S+/g, "");
    }
  },
);

netnsTest(
  "findLostAddresses() reads pods whose routes are gone, and restoreEnd() gives them back as they were",
  async () => {
    await using node = await testNode();
    const { host } = node;
    await node.net.init();
    const dual = await addPod(node, 1);
    await addPod(node, 2, { addresses: addressesOf(2, "ipv4") });
    await addPod(node, 3, { addresses: addressesOf(3, "ipv6") });
    // What a pod added later is not what it was given.
    const eth0 = ["dev", "eth0"];
    await dual.pod.ip("address", "add", "10.1.2.99/32", ...eth0);
    await dual.pod.ip("address", "add", "fd02::99/128", ...eth0, "nodad");
    const before = await routesOf(host, 116);
    for (const family of ["-4", "-6"]) {
      await host.ip(family, "route", "flush", "table", "116");
    }
    const net = node.restart();
    const pods = await net.list();
    assert.deepEqual(pods.map(({ addresses }) => addresses), [{}, {}, {}]);
    const found = await net.findLostAddresses(pods);
    for (const pod of pods) {
      await net.upkeep.restoreEnd(pod, found.get(pod.index) ?? {});
    }
    assert.deepEqual(await routesOf(host, 116), before);
    await net.check({ ...dual.request });
  },
);

netnsTest(
  "findLostAddresses() is not misled by another host's pod with the same indexes",
  async () => {
    // Where indexes begin takes four bytes; MAC addresses stay random.
    const random: RandomBytes = (bytes) =>
      bytes.length === 4 ? bytes.fill(1) : crypto.getRandomValues(bytes);
    await using first = await testNode({ random });
    await using second = await testNode({ random });
    await addPod(first, 1);
    await addPod(second, 2);
    await first.host.ip("route", "flush", "table", "116");
    await first.host.ip("-6", "route", "flush", "table", "116");
    const pods = await first.net.list();
    assert.equal(pods[0]?.index, (await second.net.list())[0]?.index);
    // By the namespace, or where the kernel gave no number of it, by the neighbours.
    const blind = pods.map(({ peerNetnsId: _number, ...pod }) => pod);
    for (const sought of [pods, blind]) {
      const found = await first.net.findLostAddresses(sought);
      assert.deepEqual(
        [...found.values()].map(({ ipv4 }) => String(ipv4)),
        ["10.1.2.1"],
      );
    }
  },
);

netnsTest(
  "findLostAddresses() falls back to the neighbours where a pod's namespace has no path, unless they are ambiguous",
  async () => {
    await using node = await testNode();
    const { host } = node;
    const { pod, result } = await addPod(node, 1);
    await host.ip("route", "flush", "table", "116");
    await host.ip("-6", "route", "flush", "table", "116");
    // An open file keeps the namespace alive when its name goes.
    using _alive = Netns.open(pod.path);
    await run("ip", "netns", "delete", pod.name);
    const later = node.restart();
    const find = async () =>
      (await later.findLostAddresses(await later.list())).get(result.hostIndex);
    assert.equal(
      JSON.stringify(await find()),
      '{"ipv4":"10.1.2.1","ipv6":"fd02::1"}',
    );
    await host.ip(
      ...["neighbour", "add", "10.1.2.77", "lladdr", "02:00:00:00:00:01"],
      ...["dev", result.hostName],
    );
    assert.equal(await find(), undefined);
  },
);

netnsTest(
  "a file that names no network namespace keeps no pod from being found",
  async () => {
    await using node = await testNode();
    await addPod(node, 1);
    const file = "/run/netns/ct-plain";
    await Deno.writeTextFile(file, "");
    try {
      const later = node.restart();
      const [listed] = await later.list();
      assert.ok(listed);
      using found = await later.openNetns(listed);
      assert.ok(found);
    } finally {
      await Deno.remove(file);
    }
  },
);

async function run(program: string, ...args: string[]): Promise<void> {
  const { success } = await new Deno.Command(program, { args }).output();
  assert.ok(success, [program, ...args].join(" "));
}
