// What coild's attachments do when something fails, or holds a lock: with the
// kernel's network, and addresses of a cluster in memory.
import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { KeyedMutex } from "../../lib/async/mod.ts";
import { CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import type { NodeIpam } from "../../lib/ipam/mod.ts";
import { FakeCluster, openNode } from "../../lib/ipam/testing.ts";
import { NetnsNotFoundError, type PodNetwork } from "../../lib/podnet/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { AddressedPods } from "../../roles/coild/addressed_pods.ts";
import { GarbageCollector } from "../../roles/coild/garbage.ts";
import { keyText } from "../../roles/coild/keys.ts";
import { CoildMetrics } from "../../roles/coild/metrics.ts";
import { NetworkMemory } from "../../roles/coild/network_memory.ts";
import { Teardown } from "../../roles/coild/teardown.ts";
import { Telling } from "../../roles/coild/telling.ts";
import { testNode } from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

const POOL = "default";
const POD = { namespace: "default", name: "pod" };
const FACTS = {
  ...{ ...POD, uid: "1", annotations: {}, isGateway: false },
  from: "cache",
} as const;

/** An ADD as far as the network goes. */
function requestFor(netns: string) {
  return {
    ...{ containerId: "cid1", ifname: "eth0", netns, network: "net" },
    ...{ pod: POD, chained: false, ips: [] },
  };
}

interface Parts extends AsyncDisposable {
  readonly attachments: AddressedPods;
  readonly ipam: NodeIpam;
  readonly locks: KeyedMutex;
  /** Waits for what is done behind callers' backs. */
  settle(): Promise<void>;
}

/** As `connectIpam()` ties them to each other. */
async function partsOn(network: PodNetwork): Promise<Parts> {
  await using undo = new AsyncDisposableStack();
  const cluster = new FakeCluster();
  cluster.addPool(POOL, 3, "10.1.2.0/24");
  const { ipam } = undo.use(await openNode(cluster));
  const teardown = undo.use(new Teardown({ ipam, network }));
  const locks = new KeyedMutex();
  const shared = {
    ...{ ipam, network, teardown, locks, networks: new NetworkMemory() },
    metrics: new CoildMetrics(createRegistry()),
    blocks: { poolNames: () => [POOL] },
    pods: {
      poolOf: () => Promise.resolve(POOL),
      isSynced: true,
      list: () => [],
    },
  };
  const garbage = new GarbageCollector(shared);
  const attachments = new AddressedPods({ ...shared, garbage });
  const resources = undo.move();
  return {
    ...{ attachments, ipam, locks },
    settle: () => teardown.drain(new AbortController().signal),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

netnsTest(
  "a failed ADD ends what it tells before it gives the address up",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const { attachments, ipam } = parts;
    const request = requestFor("/run/netns/ct-absent");
    const seen: unknown[] = [];
    const { signal } = new AbortController();
    await using telling = new Telling(signal, async (_, { signal }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => resolve());
      await promise;
      seen.push(ipam.lookup(request)?.state);
    });
    using held = new DisposableStack();
    await assert.rejects(
      attachments.connect(request, FACTS, { held, signal, telling }),
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
    await using telling = new Telling(signal);
    await attachments.connect(request, FACTS, { held, signal, telling });
    const config = { name: "net", "cni.dev/valid-attachments": [] };
    const args = create(CNIArgsSchema, {
      stdinData: new TextEncoder().encode(JSON.stringify(config)),
    });
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
