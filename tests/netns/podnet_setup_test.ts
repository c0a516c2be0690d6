import assert from "node:assert/strict";
import { valuesOf } from "../../lib/inet/mod.ts";
import { hostVethName, linkLocalOf } from "../../lib/podnet/mod.ts";
import { eventually } from "../lab/mod.ts";
import {
  addPod,
  addressesOf,
  linkNames,
  NODE,
  ping,
  requestFor,
  routesOf,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "KN-1 setup() gives six pods of all families their two ends, addresses and routes",
  async () => {
    await using node = await testNode({ mtu: 1400 });
    await node.net.init();
    const families = ["dual", "dual", "ipv4", "ipv4", "ipv6", "ipv6"] as const;
    for (const [i, family] of families.entries()) {
      const n = i + 1;
      const addresses = addressesOf(n, family);
      const { pod, request, result } = await addPod(node, n, { addresses });

      // The kernel says so a moment after the other end is up.
      const eth0 = await eventually("eth0 to be up", async () => {
        const [link] = await pod.ipJson("link", "show", "eth0");
        return link?.["operstate"] === "UP" && link;
      });
      assert.equal(eth0["address"], result.podMac);
      assert.equal(eth0["mtu"], 1400);
      const [veth] = await node.host.ipJson("link", "show", result.hostName);
      assert.equal(veth?.["address"], result.hostMac);
      assert.equal(veth?.["mtu"], 1400);
      assert.equal(veth?.["ifalias"], `COIL:default:cid${n}:eth0`);
      assert.equal(veth?.["ifindex"], result.hostIndex);
      assert.equal(result.hostName, hostVethName(request));
      assert.equal(result.mtu, 1400);

      const { ipv4, ipv6 } = addresses;
      const gateway = linkLocalOf(result.hostMac);
      assert.deepEqual(
        await routesOf(pod, "main"),
        [
          ...(ipv4 === undefined ? [] : [
            "169.254.1.1 dev eth0 scope link",
            "default via 169.254.1.1 dev eth0",
          ]),
          ...(ipv6 === undefined ? [] : [
            `default via ${gateway} dev eth0 metric 1024 pref medium`,
            "fe80::/64 dev eth0 proto kernel metric 256 pref medium",
            `${ipv6} dev eth0 proto kernel metric 256 pref medium`,
          ]),
        ].toSorted(),
      );
      const ofPod = (line: string) => line.includes(`dev ${result.hostName} `);
      assert.deepEqual(
        (await routesOf(node.host, 116)).filter(ofPod),
        [
          ...(ipv4 === undefined ? [] : [
            `${ipv4} dev ${result.hostName} proto 30 scope link src ${NODE.ipv4}`,
          ]),
          ...(ipv6 === undefined ? [] : [
            `${ipv6} dev ${result.hostName} proto 30 src ${NODE.ipv6} metric 1024 pref medium`,
          ]),
        ],
      );
    }
    assert.equal((await linkNames(node.host)).length, 6);
  },
);

netnsTest(
  "KN-2 the first packet arrives right after setup(): host and pods, both families",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const dual = await addPod(node, 1);
    for (const address of valuesOf(dual.request.addresses)) {
      await ping(node.host, address);
    }
    for (const address of valuesOf(NODE)) await ping(dual.pod, address);
    const v4 = await addPod(node, 2, { addresses: addressesOf(2, "ipv4") });
    await ping(v4.pod, dual.request.addresses.ipv4);
    const v6 = await addPod(node, 3, { addresses: addressesOf(3, "ipv6") });
    await ping(v6.pod, dual.request.addresses.ipv6);
    await ping(dual.pod, `${linkLocalOf(dual.result.hostMac)}%eth0`);
  },
);

netnsTest(
  "W8 setup() of a dual-stack pod waits for no duplicate address detection",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    const result = await node.net.setup(requestFor(1, pod));
    for (
      const [netns, name] of [[pod, "eth0"], [
        node.host,
        result.hostName,
      ]] as const
    ) {
      const shown = await netns.ip("-6", "address", "show", "dev", name);
      assert.match(shown, /scope link nodad/);
      assert.doesNotMatch(shown, /tentative|dadfailed/);
    }
  },
);

netnsTest(
  "setup() tells both ends their neighbours, without which a first packet can take a second",
  async () => {
    await using node = await testNode();
    const { pod, request, result } = await addPod(node, 1);
    const macs = async (netns: typeof pod, name: string) => {
      const rows = await netns.ipJson("neighbour", "show", "dev", name);
      return Object.fromEntries(rows.map((row) => [row["dst"], row["lladdr"]]));
    };
    const inPod = await macs(pod, "eth0");
    assert.equal(inPod["169.254.1.1"], result.hostMac);
    assert.equal(inPod[String(linkLocalOf(result.hostMac))], result.hostMac);
    const inHost = await macs(node.host, result.hostName);
    for (const address of valuesOf(request.addresses)) {
      assert.equal(inHost[String(address)], result.podMac);
    }
  },
);

netnsTest("the host speaks to a pod from the node's address", async () => {
  await using node = await testNode();
  await node.net.init();
  await addPod(node, 1);
  const source = async (address: string) => {
    const [route] = await node.host.ipJson("route", "get", address);
    return route?.["prefsrc"];
  };
  assert.equal(await source("10.1.2.1"), String(NODE.ipv4));
  assert.equal(await source("fd02::1"), String(NODE.ipv6));
});

netnsTest(
  "routes have the table, rule and protocol that a node is set to",
  async () => {
    const numbers = { tableId: 217, rulePriority: 3000, protocolId: 77 };
    await using node = await testNode(numbers);
    const { host, net } = node;
    await net.init();
    const { pod, request } = await addPod(node, 1);
    for (const address of valuesOf(NODE)) await ping(pod, address);
    const lines = await routesOf(host, 217);
    assert.equal(lines.length, 2);
    for (const line of lines) assert.match(line, /proto 77( |$)/);
    assert.match(await host.ip("rule"), /^3000:.* lookup 217/m);
    assert.deepEqual(await routesOf(host, 116), []);
    const { pods, misplacedRoutes } = await node.restart().survey();
    assert.deepEqual(pods[0]?.addresses, request.addresses);
    assert.deepEqual(misplacedRoutes, []);
  },
);

netnsTest(
  "W20 setup() serves both families on a node without any address",
  async () => {
    await using node = await testNode({ bare: true });
    await node.net.init();
    const a = await addPod(node, 1);
    const b = await addPod(node, 2);
    for (const address of valuesOf(b.request.addresses)) {
      await ping(a.pod, address);
      await ping(node.host, address);
    }
  },
);

netnsTest(
  "W20 setup() in node-address mode falls back where the node lacks the family",
  async () => {
    await using node = await testNode({
      gatewayMode: "node-address",
      nodeAddresses: { ipv6: NODE.ipv6 },
    });
    await node.net.init();
    const { pod } = await addPod(node, 1);
    assert.match(await pod.ip("route", "show"), /default via 169\.254\.1\.1 /);
    for (const address of valuesOf(NODE)) await ping(pod, address);
  },
);

netnsTest("setup() keeps a pod from becoming the node's router", async () => {
  await using node = await testNode();
  await node.net.init();
  const { result } = await addPod(node, 1);
  const file = `/proc/sys/net/ipv6/conf/${result.hostName}/accept_ra`;
  assert.equal((await node.host.exec("cat", file)).trim(), "0");
});

netnsTest(
  "setup() in node-address mode does as upstream (golden A.3, A.4)",
  async () => {
    await using node = await testNode({ gatewayMode: "node-address" });
    await node.net.init();
    const { pod, result } = await addPod(node, 1);
    const { hostName, hostMac } = result;
    assert.deepEqual(await routesOf(node.host, 116), [
      `10.1.2.1 dev ${hostName} proto 30 scope link`,
      `fd02::1 dev ${hostName} proto 30 metric 1024 pref medium`,
    ]);
    const addresses = await node.host.ip("address", "show", "dev", hostName);
    assert.match(addresses, /inet 10\.20\.30\.41\/32 scope global/);
    assert.match(addresses, /inet6 fd10::41\/128 scope global/);
    const routes = await routesOf(pod, "main");
    assert.ok(routes.includes("default via 10.20.30.41 dev eth0"));
    assert.ok(routes.includes("10.20.30.41 dev eth0 scope link"));
    assert.ok(
      routes.includes(
        `default via ${linkLocalOf(hostMac)} dev eth0 metric 1024 pref medium`,
      ),
    );
    for (const address of valuesOf(NODE)) await ping(pod, address);
    await ping(node.host, "10.1.2.1");
    await ping(node.host, "fd02::1");
  },
);

netnsTest(
  "setup() leaves the source out of a route when the node does not have that address",
  async () => {
    await using node = await testNode({
      nodeAddresses: {
        ipv4: addressesOf(99).ipv4 ?? NODE.ipv4,
        ipv6: NODE.ipv6,
      },
    });
    await node.net.init();
    const { result } = await addPod(node, 1);
    assert.deepEqual(await routesOf(node.host, 116), [
      `10.1.2.1 dev ${result.hostName} proto 30 scope link`,
      `fd02::1 dev ${result.hostName} proto 30 src ${NODE.ipv6} metric 1024 pref medium`,
    ]);
    await ping(node.host, "10.1.2.1");
  },
);

netnsTest(
  "setup() switches IPv6 on for the pod's interface where it is off for new ones",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    await pod.exec(
      "sysctl",
      "-q",
      "-w",
      "net.ipv6.conf.default.disable_ipv6=1",
    );
    await node.net.setup(requestFor(1, pod));
    await ping(pod, NODE.ipv6);
    await ping(pod, NODE.ipv4);
  },
);

netnsTest(
  "the first packet arrives in a wave of setups too, both families",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pods = await Promise.all(
      Array.from({ length: 20 }, () => node.pod()),
    );
    await Promise.all(pods.map(async (pod, i) => {
      const request = requestFor(i + 1, pod);
      await node.net.setup(request);
      await Promise.all([
        ...valuesOf(request.addresses).map((to) => ping(node.host, to)),
        ...valuesOf(NODE).map((to) => ping(pod, to)),
      ]);
    }));
  },
);

netnsTest("110 setups at once all work, and so do 110 teardowns", async () => {
  await using node = await testNode();
  await node.net.init();
  const pods = await Promise.all(Array.from({ length: 110 }, () => node.pod()));
  const requests = pods.map((pod, i) => requestFor(i + 1, pod));
  await Promise.all(requests.map((request) => node.net.setup(request)));
  assert.equal((await node.net.list()).length, 110);
  for (const request of [requests[0], requests[109]]) {
    for (const address of valuesOf(request?.addresses ?? {})) {
      await ping(node.host, address);
    }
  }
  await Promise.all(requests.map(async (request) => {
    const teardown = await node.net.beginTeardown(request);
    assert.ok(teardown);
    await node.net.finishTeardown(teardown);
  }));
  assert.deepEqual(await linkNames(node.host), []);
  assert.deepEqual(await routesOf(node.host, 116), []);
});

netnsTest(
  "check() does not take another pod's interface for the pod's",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request } = await addPod(node, 1);
    const { pod } = await addPod(node, 2);
    await assert.rejects(
      node.net.check({ ...request, netnsPath: pod.path }),
      /is not the peer of/,
    );
  },
);
