import assert from "node:assert/strict";
import {
  calicoVethName,
  hostVethName,
  IfnameTakenError,
  LinkNameError,
  NetnsNotFoundError,
} from "../../lib/podnet/mod.ts";
import { POD_END_INDEX } from "../../lib/podnet/links/link_indexes.ts";
import { NetlinkError } from "../../lib/netlink/mod.ts";
import {
  addPod,
  addressesOf,
  addVeth,
  linkNames,
  ping,
  requestFor,
  routesOf,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "setup() takes over the ifname of a container that is cut off already",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request } = await addPod(node, 1);
    // A DEL that has been answered; what is slow in the kernel has not begun.
    const teardown = await node.net.beginTeardown(request);
    assert.ok(teardown);
    const next = requestFor(2, pod);
    const { hostName } = await node.net.setup(next);
    await node.net.check({ ...next, netnsPath: pod.path });
    assert.deepEqual(await linkNames(node.host), [hostName]);
    await node.net.finishTeardown(teardown);
    assert.deepEqual(await linkNames(pod), ["eth0"]);
  },
);

netnsTest(
  "setup() does not take the ifname of a container that lives",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request } = await addPod(node, 1);
    await assert.rejects(
      node.net.setup(requestFor(2, pod)),
      IfnameTakenError,
    );
    await node.net.check({ ...request, netnsPath: pod.path });
  },
);

netnsTest(
  "setup() follows a DEL of the same namespace at once, again and again",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    const finishing: Promise<void>[] = [];
    await node.net.setup(requestFor(1, pod));
    for (let n = 1; n < 20; n++) {
      const teardown = await node.net.beginTeardown(requestFor(n, pod));
      assert.ok(teardown);
      finishing.push(node.net.finishTeardown(teardown));
      await node.net.setup(requestFor(n + 1, pod));
    }
    await Promise.all(finishing);
    await node.net.check({ ...requestFor(20, pod), netnsPath: pod.path });
    assert.equal((await linkNames(node.host)).length, 1);
  },
);

netnsTest(
  "setup() does without the index of its choice in a pod where it is taken",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    const other = ["other0", "index", `${POD_END_INDEX}`, "type", "bridge"];
    await pod.ip("link", "add", ...other);
    const before = await pod.ip("-d", "address", "show", "dev", "other0");
    const request = requestFor(1, pod);
    const { hostName } = await node.net.setup(request);
    await node.net.check({ ...request, netnsPath: pod.path });
    await ping(node.host, "10.1.2.1");
    assert.deepEqual(await linkNames(node.host), [hostName]);
    const after = await pod.ip("-d", "address", "show", "dev", "other0");
    assert.equal(after, before);
    // With the other end's index it would be "UNKNOWN" for up to a second.
    const [made] = await pod.ipJson("link", "show", "dev", "eth0");
    assert.notEqual(made?.["ifindex"], made?.["link_index"]);
    const next = await addPod(node, 2);
    const [eth0] = await next.pod.ipJson("link", "show", "dev", "eth0");
    assert.equal(eth0?.["ifindex"], POD_END_INDEX);
  },
);

netnsTest(
  "setup() refuses an ifname that is taken, and touches nothing of it",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    await pod.ip("link", "add", "eth0", "type", "bridge");
    await pod.ip("address", "add", "192.0.2.1/24", "dev", "eth0");
    const before = await pod.ip("-d", "address", "show", "dev", "eth0");
    await assert.rejects(node.net.setup(requestFor(1, pod)), (error) => {
      assert.ok(error instanceof IfnameTakenError);
      assert.equal(error.ifname, "eth0");
      assert.ok(error.message.includes(`"${pod.path}"`), error.message);
      return true;
    });
    assert.equal(await pod.ip("-d", "address", "show", "dev", "eth0"), before);
    assert.deepEqual(await linkNames(node.host), []);
  },
);

netnsTest(
  "setup() tells a missing network namespace and a file that is none",
  async () => {
    await using node = await testNode();
    const file = await Deno.makeTempFile();
    try {
      for (
        const netnsPath of ["/run/netns/ct-absent", file, "/proc/self/ns/mnt"]
      ) {
        const request = { ...requestFor(1, node.host), netnsPath };
        await assert.rejects(node.net.setup(request), (error) => {
          assert.ok(error instanceof NetnsNotFoundError);
          assert.equal(error.path, netnsPath);
          assert.ok(error.message.includes(`"${netnsPath}"`));
          return true;
        });
      }
    } finally {
      await Deno.remove(file);
    }
    assert.deepEqual(await linkNames(node.host), []);
  },
);

netnsTest("setup() refuses the host's own network namespace", async () => {
  await using node = await testNode();
  await assert.rejects(node.net.setup(requestFor(1, node.host)), TypeError);
  assert.deepEqual(await linkNames(node.host), []);
});

netnsTest(
  "setup() refuses a container ID that its alias would not give back",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    for (const containerId of ["a:b", "a\nb", "x".repeat(300), ""]) {
      const request = requestFor(1, pod, { containerId });
      await assert.rejects(node.net.setup(request), LinkNameError);
    }
    assert.deepEqual(await linkNames(node.host), []);
    assert.deepEqual(await linkNames(pod), []);
  },
);

netnsTest("setup() works with a container ID of odd characters", async () => {
  await using node = await testNode();
  const containerId = "a_b.c-D;$(x) 'ü\"";
  const { request } = await addPod(node, 1, { containerId });
  const [pod] = await node.net.list();
  assert.equal(pod?.containerId, containerId);
  assert.ok(await node.net.beginTeardown(request));
});

netnsTest(
  "setup() of the same key again rebuilds the pod's network",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request, result } = await addPod(node, 1);
    const again = await node.net.setup(request);
    assert.deepEqual([result.isFirst, again.isFirst], [true, false]);
    assert.notEqual(again.hostIndex, result.hostIndex);
    assert.equal(again.hostName, result.hostName);
    assert.deepEqual(await linkNames(node.host), [result.hostName]);
    assert.deepEqual(await linkNames(pod), ["eth0"]);
    await ping(node.host, "10.1.2.1");
    await ping(node.host, "fd02::1");
  },
);

netnsTest("W4 setups of one key at once leave one link", async () => {
  await using node = await testNode();
  const pod = await node.pod();
  const request = requestFor(1, pod);
  await Promise.all([1, 2, 3].map(() => node.net.setup(request)));
  assert.deepEqual(await linkNames(node.host), [hostVethName(request)]);
  assert.deepEqual(await linkNames(pod), ["eth0"]);
});

netnsTest(
  "setup() removes what upstream Coil left for the same key under a random name",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    await node.host.ip(
      ...["link", "add", "veth2fb6b94f", "type", "veth"],
      ...["peer", "name", "eth0", "netns", pod.name],
    );
    await node.host.ip(
      ...["link", "set", "veth2fb6b94f", "alias", "COIL:default:cid1:eth0"],
    );
    await node.net.init();
    const result = await node.net.setup(requestFor(1, pod));
    assert.equal(result.isFirst, false);
    assert.deepEqual(await linkNames(node.host), [result.hostName]);
  },
);

netnsTest(
  "setup() replaces what a killed ADD left without an alias",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    const request = requestFor(1, pod);
    await node.host.ip(
      ...["link", "add", hostVethName(request), "type", "veth"],
      ...["peer", "name", "eth0", "netns", pod.name],
    );
    const result = await node.net.setup(request);
    assert.equal(result.isFirst, false);
    assert.deepEqual(await linkNames(node.host), [result.hostName]);
    await ping(node.host, "10.1.2.1");
  },
);

netnsTest(
  "setup() takes another name where a link of others has the first, and leaves that alone",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pod = await node.pod();
    const request = requestFor(1, pod);
    const taken = hostVethName(request);
    // One of another key of ours, and one that is nobody's veth.
    await addVeth(node.host, taken);
    await node.host.ip(
      "link",
      "set",
      taken,
      "alias",
      "COIL:default:other:eth0",
    );
    const second = hostVethName(request, 1);
    await node.host.ip("link", "add", second, "type", "bridge");

    const result = await node.net.setup(request);
    assert.equal(result.hostName, hostVethName(request, 2));
    const [other] = await node.host.ipJson("link", "show", taken);
    assert.equal(other?.["ifalias"], "COIL:default:other:eth0");
    await ping(node.host, "10.1.2.1");

    const teardown = await node.restart().beginTeardown(request);
    assert.equal(teardown?.husk.index, result.hostIndex);
    assert.equal((await linkNames(node.host)).length, 4);
  },
);

netnsTest(
  "setup() of a key again removes its link of another name, when the first name is free by now",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const request = requestFor(1, await node.pod());
    const taken = hostVethName(request);
    await node.host.ip("link", "add", taken, "type", "bridge");
    const { hostName } = await node.net.setup(request);
    assert.notEqual(hostName, taken);
    await node.host.ip("link", "delete", taken);
    const again = await node.net.setup(requestFor(1, await node.pod()));
    assert.equal(again.isFirst, false);
    const pods = await node.net.list();
    assert.deepEqual(pods.map((pod) => pod.hostName), [taken]);
  },
);

netnsTest(
  "setup() leaves nothing when the kernel refuses a step, nor touches a foreign route",
  async () => {
    await using node = await testNode();
    await node.host.ip(
      "route",
      "add",
      "10.1.2.1",
      "dev",
      "node0",
      "table",
      "116",
    );
    const before = await routesOf(node.host, 116);
    const pod = await node.pod();
    await assert.rejects(
      node.net.setup(requestFor(1, pod)),
      (error) =>
        error instanceof NetlinkError && error.code === "EEXIST" &&
        error.message.includes("10.1.2.1/32"),
    );
    assert.deepEqual(await linkNames(node.host), []);
    assert.deepEqual(await linkNames(pod), []);
    assert.deepEqual(await routesOf(node.host, 116), before);
  },
);

netnsTest("setup() aborted on the way leaves nothing", async () => {
  const controller = new AbortController();
  await using node = await testNode({
    random: (bytes) => {
      controller.abort(new Error("enough"));
      return crypto.getRandomValues(bytes);
    },
  });
  const pod = await node.pod();
  await assert.rejects(
    node.net.setup(requestFor(1, pod), { signal: controller.signal }),
    /enough/,
  );
  assert.deepEqual(await linkNames(node.host), []);
  assert.deepEqual(await linkNames(pod), []);
});

netnsTest(
  "Calico names: a new container of a pod takes over its link's name",
  async () => {
    await using node = await testNode({ calico: true });
    await node.net.init();
    const pod = { namespace: "podns", name: "podname" };
    const first = await addPod(node, 1, { pod });
    assert.equal(first.result.hostName, "veth4a7140b0163");
    assert.equal(first.result.hostName, calicoVethName(pod));
    const second = await addPod(node, 2, { pod });
    assert.equal(second.result.hostName, first.result.hostName);
    assert.deepEqual(await linkNames(node.host), [first.result.hostName]);
    await ping(node.host, "10.1.2.2");

    // The old container's DEL comes late, and knows only its key.
    assert.equal(await node.net.beginTeardown(first.request), undefined);
    assert.equal(
      await node.net.beginTeardown(first.request, { pod }),
      undefined,
    );
    for (const net of [node.net, node.restart({ calico: true })]) {
      const { containerId, ifname } = second.request;
      await net.check({ containerId, ifname, addresses: addressesOf(2) });
    }
    assert.ok(await node.restart().beginTeardown(second.request));
  },
);

netnsTest(
  "Calico names: the late DEL of an old container does not hit the ADD of the new one",
  async () => {
    await using node = await testNode({ calico: true });
    await node.net.init();
    const pod = { namespace: "podns", name: "podname" };
    const { request: old } = await addPod(node, 1, { pod });
    for (let n = 2; n < 12; n++) {
      const added = addPod(node, n, { pod });
      for (let calls = 0; calls < 20; calls++) {
        await node.net.beginTeardown(old, { pod });
      }
      const { containerId, ifname } = (await added).request;
      await node.net.check({ containerId, ifname, addresses: addressesOf(n) });
    }
  },
);

netnsTest(
  "Calico names: the late DEL of an old container leaves the link that Coil v1 made for the new one",
  async () => {
    await using node = await testNode({ calico: true });
    await node.net.init();
    const pod = { namespace: "podns", name: "podname" };
    const name = calicoVethName(pod);
    const netns = await node.pod();
    // v1's links have this name too, no alias, and their route in the main table.
    await node.host.ip(
      ...["link", "add", name, "type", "veth"],
      ...["peer", "name", "eth0", "netns", netns.path],
    );
    const old = { containerId: "dead".repeat(16), ifname: "eth0" };
    assert.equal(await node.net.beginTeardown(old, { pod }), undefined);
    assert.deepEqual(await linkNames(node.host), [name]);
    await assert.rejects(
      node.net.check({ ...old, pod, addresses: addressesOf(1) }),
      /it has no host link/,
    );
    // The pod's next container has the name: v1's has ended.
    const { request, result } = await addPod(node, 2, { pod });
    assert.equal(result.hostName, name);
    assert.deepEqual(await linkNames(netns), []);
    assert.ok(await node.net.beginTeardown(request, { pod }));
  },
);
