// What coild's attachments do when something fails, or holds a lock: with the
// kernel's network, and addresses of a cluster in memory.
import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { untilAborted } from "../../lib/async/mod.ts";
import { CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import { NetnsNotFoundError } from "../../lib/podnet/mod.ts";
import { keyText } from "../../lib/cni/mod.ts";
import { PodAnnouncement } from "../../roles/coild/calls/announcement.ts";
import { FACTS, gcOfNone, partsOn, requestFor } from "./coild_parts.ts";
import { testNode } from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "a failed ADD ends what it tells before it gives the address up",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const { attachments, ipam } = parts;
    const request = requestFor("/run/netns/ct-absent");
    const seen: unknown[] = [];
    const { signal } = new AbortController();
    await using announcement = new PodAnnouncement(
      signal,
      async (_, { signal }) => {
        await untilAborted(signal);
        seen.push(ipam.lookup(request)?.state);
      },
    );
    using held = new DisposableStack();
    await assert.rejects(
      attachments.connect(request, FACTS, { held, signal, announcement }),
      NetnsNotFoundError,
    );
    await parts.settle();
    assert.deepEqual(seen, ["used"]);
    assert.equal(ipam.lookup(request), undefined);
  },
);

netnsTest(
  "GC waits for upkeep, and passes over what a call works on",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const { attachments, ipam, locks } = parts;
    const pod = await node.pod();
    const request = requestFor(pod.path);
    const { signal } = new AbortController();
    using held = new DisposableStack();
    const options = { held, signal, announcement: undefined };
    await attachments.connect(request, FACTS, options);
    const args = gcOfNone();
    const released: string[] = [];
    const gc = () =>
      attachments.gc(args, {
        signal,
        onReleased: (key) => released.push(keyText(key)),
      });
    const key = keyText(request);
    {
      using _call = await locks.lock(key);
      await gc();
      assert.deepEqual(released, []);
    }
    const upkeep = await locks.lock(key, { upkeep: true });
    const collecting = gc();
    // It stands in the queue before anything is released.
    while (!locks.isLocked(key)) await new Promise((next) => setTimeout(next));
    assert.deepEqual(released, []);
    upkeep[Symbol.dispose]();
    await collecting;
    await parts.settle();
    assert.deepEqual(released, [key]);
    assert.equal(ipam.lookup(request), undefined);
  },
);

netnsTest(
  "CHECK takes the addresses of its own link from the kernel while the address management does not know them",
  async () => {
    await using node = await testNode();
    await node.net.init();
    await using parts = await partsOn(node.net);
    const pods = [await node.pod(), await node.pod()];
    for (const [n, pod] of pods.entries()) {
      await parts.add(requestFor(pod.path, `cid${n}`));
    }
    // As after a restart, before the start is through.
    await using fresh = await partsOn(node.net);
    for (const [n, { path: netns }] of pods.entries()) {
      const containerId = `cid${n}`;
      const args = create(CNIArgsSchema, {
        containerId,
        ifname: "eth0",
        netns,
      });
      const { signal } = new AbortController();
      await fresh.attachments.check(args, { signal });
    }
  },
);
