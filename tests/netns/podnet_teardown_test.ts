import assert from "node:assert/strict";
import { POD_LINK_GROUP } from "../../lib/names/mod.ts";
import { type CutOff, PodCheckError } from "../../lib/podnet/mod.ts";
import { eventually } from "../lab/wait.ts";
import {
  addPod,
  addVeth,
  linkNames,
  requestFor,
  routesOf,
  type TestNode,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

async function begin(
  node: TestNode,
  key: { containerId: string; ifname: string },
): Promise<CutOff> {
  const teardown = await node.net.beginTeardown(key);
  assert.ok(teardown);
  return teardown;
}

netnsTest(
  "KN-5 teardown takes a pod out of the list; again is fine; check() says it is gone",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const kept = await addPod(node, 1);
    const { request, pod } = await addPod(node, 2);
    await node.net.finishTeardown(await begin(node, request));
    const left = await node.net.list();
    assert.deepEqual(left.map((p) => p.containerId), ["cid1"]);
    assert.deepEqual(await linkNames(pod), []);
    assert.equal(await node.net.beginTeardown(request), undefined);
    const { containerId, ifname, addresses } = request;
    await assert.rejects(
      node.net.check({ containerId, ifname, addresses }),
      PodCheckError,
    );
    await node.net.check({ ...kept.request, netnsPath: kept.pod.path });
  },
);

netnsTest(
  "beginTeardown() cuts a pod off and leaves a husk; finishTeardown() removes it",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request, result } = await addPod(node, 1);
    const teardown = await begin(node, request);
    assert.deepEqual(await routesOf(node.host, 116), []);
    assert.deepEqual(await node.net.list(), []);
    const [husk] = await node.host.ipJson("link", "show", result.hostName);
    assert.equal(husk?.["ifalias"], "COIL-HUSK:default:cid1:eth0");

    // A second DEL of the same container joins the first.
    const again = await begin(node, request);
    assert.equal(again.husk.index, teardown.husk.index);
    await Promise.all([teardown, again].map((t) => node.net.finishTeardown(t)));
    assert.deepEqual(await linkNames(node.host), []);
    await node.net.finishTeardown(teardown);
  },
);

netnsTest(
  "beginTeardown() finds veths of upstream Coil by any name",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    await upstreamPod(node.host, pod);
    const [listed] = await node.net.list();
    assert.equal(listed?.hostName, "veth2fb6b94f");
    assert.equal(String(listed?.addresses.ipv4), "10.1.2.3");
    for (const net of [node.net, node.restart()]) {
      const key = { containerId: "cid0", ifname: "eth0" };
      const other = { containerId: "cid0", ifname: "eth1" };
      assert.equal(await net.beginTeardown(other), undefined);
      const teardown = await net.beginTeardown(key);
      assert.ok(teardown);
      assert.deepEqual(await routesOf(node.host, 116), []);
    }
    await node.net.finishHusks();
    assert.deepEqual(await linkNames(node.host), []);
  },
);

netnsTest(
  "beginTeardown() takes down a veth of upstream's whose alias leaves no room for a husk's",
  async () => {
    await using node = await testNode();
    const pod = await node.pod();
    const containerId = "x".repeat(255 - "COIL:default::eth0".length);
    await upstreamPod(node.host, pod, containerId);
    const key = { containerId, ifname: "eth0" };
    await node.net.finishTeardown(await begin(node, key));
    assert.deepEqual(await routesOf(node.host, 116), []);
    assert.deepEqual(await linkNames(node.host), []);
  },
);

netnsTest("beginTeardown() takes down what a killed ADD left", async () => {
  await using node = await testNode();
  const { request, result } = await addPod(node, 1);
  // `ip` cannot take an alias away, so make the link again as ADD's first send does.
  await node.host.ip("link", "delete", result.hostName);
  await node.host.ip(
    "link",
    "add",
    result.hostName,
    "type",
    "veth",
    "peer",
    "name",
    "p",
  );
  await node.net.finishTeardown(await begin(node, request));
  assert.deepEqual(await linkNames(node.host), []);
});

netnsTest(
  "finishTeardown() is content when the husk vanished with the pod's namespace",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request } = await addPod(node, 1);
    const teardown = await begin(node, request);
    await pod[Symbol.asyncDispose]();
    await untilEmpty(node.host);
    await node.net.finishTeardown(teardown);
  },
);

netnsTest(
  "beginTeardown() is content when the link vanished with the pod's namespace",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { pod, request } = await addPod(node, 1);
    await pod[Symbol.asyncDispose]();
    await untilEmpty(node.host);
    assert.equal(await node.net.beginTeardown(request), undefined);
  },
);

netnsTest("setup() of a key whose husk is still there works", async () => {
  await using node = await testNode();
  await node.net.init();
  const { pod, request } = await addPod(node, 1);
  const teardown = await begin(node, request);
  const finished = node.net.finishTeardown(teardown);
  const result = await node.net.setup(request);
  await finished;
  assert.deepEqual(await linkNames(node.host), [result.hostName]);
  assert.deepEqual(await linkNames(pod), ["eth0"]);
});

netnsTest(
  "husks that go together take no link of others along, from any group",
  async () => {
    // The first group that is drawn for a deletion has a link of others.
    const random = (bytes: Uint8Array<ArrayBuffer>) => {
      if (bytes.length !== 4) return crypto.getRandomValues(bytes);
      return bytes.fill(draws++ === 0 ? 0x41 : 0x42);
    };
    let draws = 0;
    await using node = await testNode({ random });
    await node.net.init();
    const pods = [await addPod(node, 1), await addPod(node, 2)];
    const kept = await addPod(node, 3);
    const teardowns = [];
    for (const { request } of pods) teardowns.push(await begin(node, request));
    await foreignLink(node.host, "other0", 0x41410000 + POD_LINK_GROUP);
    await Promise.all(teardowns.map((t) => node.net.finishTeardown(t)));
    assert.equal(draws, 2);
    assert.deepEqual(
      await linkNames(node.host),
      ["other0", "other0p", kept.result.hostName].toSorted(),
    );
  },
);

netnsTest(
  "beginTeardownOf() cuts off the link that was listed, and no later one of its key",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request, result } = await addPod(node, 1);
    const [listed] = await node.net.list();
    assert.ok(listed);
    await node.net.finishTeardown(await begin(node, request));
    const again = await node.net.setup(request);
    assert.notEqual(again.hostIndex, result.hostIndex);
    const late = await node.net.beginTeardownOf(listed);
    assert.deepEqual(late, { isLast: false, teardown: undefined });
    const { containerId, ifname, addresses, netnsPath } = request;
    await node.net.check({ containerId, ifname, addresses, netnsPath });

    const [live] = await node.net.list();
    assert.ok(live);
    const { isLast, teardown } = await node.net.beginTeardownOf(live);
    assert.ok(isLast && teardown);
    assert.deepEqual(await routesOf(node.host, 116), []);
    await node.net.finishTeardown(teardown);
    assert.deepEqual(await node.net.beginTeardownOf(live), {
      isLast: true,
      teardown: undefined,
    });
  },
);

netnsTest(
  "finishHusks() deletes the husks of a former process, of any group",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const kept = await addPod(node, 1);
    for (const n of [2, 3]) await begin(node, (await addPod(node, n)).request);
    const { request, result } = await addPod(node, 4);
    await begin(node, request);
    await node.host.ip("link", "set", result.hostName, "group", "7");

    const later = node.restart();
    await later.init();
    assert.equal((await later.survey()).husks.length, 3);
    assert.equal(await later.finishHusks(), 3);
    assert.deepEqual(await linkNames(node.host), [kept.result.hostName]);
    assert.equal(await later.finishHusks(), 0);
  },
);

/** What upstream makes for a pod, as far as the host is concerned. */
async function upstreamPod(
  host: TempNetns,
  pod: TempNetns,
  containerId = "cid0",
): Promise<void> {
  const name = "veth2fb6b94f";
  await host.ip(
    ...["link", "add", name, "type", "veth"],
    ...["peer", "name", "eth0", "netns", pod.name],
  );
  const alias = `COIL:default:${containerId}:eth0`;
  await host.ip("link", "set", name, "alias", alias, "up");
  await host.ip(
    ...["route", "add", "10.1.2.3", "dev", name],
    ...["table", "116", "proto", "30", "scope", "link"],
  );
}

async function foreignLink(
  host: TempNetns,
  name: string,
  group: number,
): Promise<void> {
  await addVeth(host, name);
  await host.ip("link", "set", name, "group", String(group));
}

/** The kernel takes a namespace apart in the background. */
async function untilEmpty(host: TempNetns): Promise<void> {
  await eventually(
    "that the pod's link is gone",
    async () => (await linkNames(host)).length === 0,
  );
}

netnsTest(
  "teardowns at once share deletions: all husks go, other pods stay",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const pods = [];
    for (let n = 1; n <= 12; n++) {
      pods.push(requestFor(n, await node.pod()));
    }
    await Promise.all(pods.map((request) => node.net.setup(request)));
    const [kept, ...gone] = pods;
    assert.ok(kept);
    await Promise.all(gone.map(async (request) => {
      await node.net.finishTeardown(await begin(node, request));
    }));
    const left = await node.net.list();
    assert.deepEqual(left.map((p) => p.containerId), [kept.containerId]);
  },
);

netnsTest(
  "beginTeardown() removes the routes that setup() made, regardless of a survey in between",
  async () => {
    await using node = await testNode();
    await node.net.init();
    const { request, result } = await addPod(node, 1);
    const { host } = node;
    // As a survey sees it that comes in the middle of an ADD.
    const route = ["fd02::1", "dev", result.hostName, "table", "116"];
    await host.ip("-6", "route", "delete", ...route);
    await node.net.survey();
    await host.ip("-6", "route", "add", ...route, "proto", "30");
    assert.ok(await node.net.beginTeardown(request));
    assert.deepEqual(await routesOf(host, 116), []);
  },
);
