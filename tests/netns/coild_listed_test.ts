// What coild does between listing attachments and acting on the list, while
// the runtime takes one down and adds another one of the same key: what was
// listed may go, what came since has to stay.
import assert from "node:assert/strict";
import type { PodNetwork } from "../../lib/podnet/mod.ts";
import { keyText } from "../../lib/cni/mod.ts";
import { eventually } from "../lab/wait.ts";
import { gcOfNone, type Parts, partsOn, requestFor } from "./coild_parts.ts";
import { addVeth, type TestNode, testNode } from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

const { signal } = new AbortController();
const KEY = { containerId: "cid1", ifname: "eth0" };

/** Confirms that the pod has its network and its address. */
async function assertLives(
  net: PodNetwork,
  { ipam, settle }: Parts,
  netnsPath: string,
): Promise<void> {
  await settle();
  const record = ipam.lookup(KEY);
  assert.equal(record?.state, "used");
  const { addresses } = record;
  await net.check({ ...KEY, addresses, netnsPath });
}

netnsTest(
  "the reconciler does not cut off a pod that was added after its husk was listed",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    // What a teardown leaves that the kernel refused half of.
    assert.ok(await node.net.beginTeardown(KEY));
    let paused = 0;
    parts.pauses.afterSurvey = async ({ husks }) => {
      paused++;
      assert.equal(husks.length, paused === 1 ? 1 : husks.length);
      if (paused === 2) await parts.add(requestFor(pod.path));
    };
    await parts.reconciler.reconcile(signal);
    assert.equal(paused, 2);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest(
  "the reconciler finishes a husk, and frees its address",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    assert.ok(await node.net.beginTeardown(KEY));
    await parts.reconciler.reconcile(signal);
    assert.ok(parts.locks.isLocked(keyText(KEY)), "an ADD has to wait");
    await parts.settle();
    assert.ok(!parts.locks.isLocked(keyText(KEY)));
    assert.deepEqual((await node.net.survey()).husks, []);
    assert.equal(parts.ipam.lookup(KEY), undefined);
  },
);

netnsTest(
  "the reconciler keeps the address of a pod that has a husk of its key beside it",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    await addVeth(node.host, "husk0");
    const alias = "COIL-HUSK:default:cid1:eth0";
    await node.host.ip("link", "set", "husk0", "alias", alias);
    await parts.reconciler.reconcile(signal);
    await assertLives(node.net, parts, pod.path);
    assert.deepEqual((await node.net.survey()).husks, []);
  },
);

netnsTest(
  "GC does not release an attachment that was deleted and added again after the list",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    parts.pauses.afterList = async (links) => {
      assert.equal(links.length, 1);
      await parts.del(requestFor(pod.path));
      await parts.add(requestFor(pod.path));
    };
    assert.deepEqual(await parts.gc(), []);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest(
  "GC does not release an attachment that an ADD made again after the list",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    // A repeated ADD: another link, the same period of use of its addresses.
    parts.pauses.afterList = () => parts.add(requestFor(pod.path));
    assert.deepEqual(await parts.gc(), []);
    await assertLives(node.net, parts, pod.path);
  },
);

/** Makes a pod whose namespace, and with it its link, is gone without a DEL. */
async function addGone(node: TestNode, { add }: Parts): Promise<void> {
  const pod = await node.pod();
  await add(requestFor(pod.path));
  await pod[Symbol.asyncDispose]();
  await eventually(
    "the link to be gone with the namespace",
    async () => (await node.net.list()).length === 0,
  );
}

netnsTest(
  "GC frees the address of an attachment whose interface is gone",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    await addGone(node, parts);
    assert.equal(parts.ipam.lookup(KEY)?.state, "used");
    assert.deepEqual(await parts.gc(gcOfNone("another")), []);
    assert.equal(parts.ipam.lookup(KEY)?.state, "used");
    assert.deepEqual(await parts.gc(), ["cid1:eth0"]);
    assert.equal(parts.ipam.lookup(KEY), undefined);
    assert.deepEqual(await parts.gc(), []);
  },
);

netnsTest(
  "GC keeps an address whose interface was gone, and that an ADD gave again after the list",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    await addGone(node, parts);
    const pod = await node.pod();
    parts.pauses.afterList = () => parts.add(requestFor(pod.path));
    assert.deepEqual(await parts.gc(), []);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest(
  "GC frees only the period of use that it listed",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    await addGone(node, parts);
    parts.pauses.afterList = async () => {
      await parts.del(requestFor("/run/netns/gone"));
      await addGone(node, parts);
    };
    assert.deepEqual(await parts.gc(), []);
    assert.equal(parts.ipam.lookup(KEY)?.state, "used");
  },
);

netnsTest(
  "the reconciler frees only the period of use that it listed",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    await parts.add(requestFor(pod.path));
    assert.ok(await node.net.beginTeardown(KEY));
    let surveys = 0;
    parts.pauses.afterSurvey = async () => {
      if (++surveys !== 2) return;
      await parts.del(requestFor(pod.path));
      await addGone(node, parts);
    };
    await parts.reconciler.reconcile(signal);
    await parts.settle();
    assert.equal(surveys, 2);
    assert.equal(parts.ipam.lookup(KEY)?.state, "used");
  },
);

netnsTest(
  "GC keeps what an ADD made between the call and the list",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    parts.pauses.beforeList = () => parts.add(requestFor(pod.path));
    assert.deepEqual(await parts.gc(), []);
    await assertLives(node.net, parts, pod.path);
    parts.pauses.beforeList = () => Promise.resolve();
    assert.deepEqual(await parts.gc(), ["cid1:eth0"], "the next one takes it");
  },
);

/** Runs what is to happen while a GC releases another attachment, before this one. */
async function duringGc(
  parts: Parts,
  during: () => Promise<void> | void,
): Promise<string[]> {
  const upkeep = await parts.locks.lock("cid0:eth0", { upkeep: true });
  const gc = parts.gc();
  await eventually(
    "GC to wait for an attachment",
    () => parts.locks.isLocked("cid0:eth0"),
  );
  await during();
  upkeep[Symbol.dispose]();
  return await gc;
}

netnsTest(
  "GC keeps what an ADD was at work on when it was called",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const [stale, pod] = [await node.pod(), await node.pod()];
    await parts.add(requestFor(stale.path, "cid0"));
    // Connected, and not answered yet.
    await parts.add(requestFor(pod.path));
    const add = await parts.locks.lock("cid1:eth0");
    parts.pauses.beforeList = () => {
      add[Symbol.dispose]();
      return Promise.resolve();
    };
    const released = await duringGc(parts, () => {});
    assert.deepEqual(released, ["cid0:eth0"]);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest(
  "GC keeps what an ADD has ended while another attachment was released",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const [stale, pod] = [await node.pod(), await node.pod()];
    await parts.add(requestFor(stale.path, "cid0"));
    let add: Disposable;
    // Begun and connected after the call; answered after the list.
    parts.pauses.beforeList = async () => {
      await parts.add(requestFor(pod.path));
      add = await parts.locks.lock("cid1:eth0");
    };
    const released = await duringGc(
      parts,
      () => add[Symbol.dispose](),
    );
    assert.deepEqual(released, ["cid0:eth0"]);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest("GC leaves alone what an ADD works on", async () => {
  await using node = await testNode();
  await node.net.init();
  await using parts = await partsOn(node.net);
  await parts.ipam.allocate({ ...KEY, pool: "default" });
  using _add = await parts.locks.lock("cid1:eth0");
  assert.deepEqual(await parts.gc(), []);
  assert.equal(parts.ipam.lookup(KEY)?.state, "used");
});

netnsTest(
  "the reconciler does not free the address of an ADD that outlasts the grace period",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pod = await node.pod();
    const add = await parts.locks.lock("cid1:eth0");
    await parts.ipam.allocate({ ...KEY, pool: "default" });
    // The kernel has nothing of it for as long as its work is held up.
    for (let minute = 0; minute < 20; minute++) {
      await parts.clock.advance(60_000);
      await parts.reconciler.reconcile(signal);
      assert.equal(parts.ipam.lookup(KEY)?.state, "used", `minute ${minute}`);
    }
    // Its link is made, and the call ends, after the links were listed.
    parts.pauses.afterSurvey = async () => {
      parts.pauses.afterSurvey = () => Promise.resolve();
      add[Symbol.dispose]();
      await parts.add(requestFor(pod.path));
    };
    await parts.reconciler.reconcile(signal);
    await assertLives(node.net, parts, pod.path);
  },
);

netnsTest(
  "the reconciler does not free the address of a DEL that outlasts the grace period",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    await parts.ipam.allocate({ ...KEY, pool: "default" });
    const del = await parts.locks.lock("cid1:eth0");
    assert.ok(parts.ipam.beginRelease(KEY));
    for (let minute = 0; minute < 20; minute++) {
      await parts.clock.advance(60_000);
      await parts.reconciler.reconcile(signal);
    }
    assert.equal(parts.ipam.lookup(KEY)?.state, "releasing");
    del[Symbol.dispose]();
    for (let minute = 0; minute < 7; minute++) {
      await parts.clock.advance(60_000);
      await parts.reconciler.reconcile(signal);
    }
    assert.equal(parts.ipam.lookup(KEY), undefined);
  },
);

netnsTest(
  "the reconciler takes over a pod that turns up in the kernel, without being asked",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const stop = new AbortController();
    const running = parts.reconciler.run(stop.signal);
    await addVeth(node.host, "hand0");
    const { ip } = node.host;
    const hand0 = ["dev", "hand0"];
    await ip("link", "set", ...hand0, "up");
    await ip(
      ...["route", "add", "10.1.2.7", ...hand0],
      ...["table", "116", "proto", "30"],
    );
    await ip("link", "set", ...hand0, "alias", "COIL:default:cid1:eth0");
    await eventually(
      "the address to be known",
      async () => parts.ipam.lookup(KEY)?.addresses.ipv4 !== undefined,
    );
    stop.abort();
    await assert.rejects(running, { name: "AbortError" });
  },
);
