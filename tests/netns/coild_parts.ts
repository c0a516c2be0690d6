// coild's attachments as `connectIpam()` ties them to each other: with the
// kernel's network, and addresses of a cluster in memory.
import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { KeyedMutex } from "../../lib/async/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import { type CNIArgs, CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import type { NodeIpam } from "../../lib/ipam/mod.ts";
import { FakeCluster, openNode } from "../../lib/ipam/testing.ts";
import type { PodLink, PodNetwork, Survey } from "../../lib/podnet/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { AddressedPods } from "../../roles/coild/pods/addressed_pods.ts";
import type { AddRequest } from "../../roles/coild/calls/cni_request.ts";
import { GarbageCollector } from "../../roles/coild/pods/garbage.ts";
import { keyText } from "../../lib/cni/mod.ts";
import { CoildMetrics } from "../../roles/coild/observe/metrics.ts";
import { NetworkMemory } from "../../roles/coild/network/memory.ts";
import type { PodFacts } from "../../roles/coild/cluster/pod_source.ts";
import { Reconciler } from "../../roles/coild/pods/reconciler.ts";
import { RouteRepair } from "../../roles/coild/network/route_repair.ts";
import { Teardown } from "../../roles/coild/pods/teardown.ts";
import type { FakeClock } from "../../lib/async/testing.ts";
import type { NamespacedName } from "../../lib/names/mod.ts";

const POOL = "default";
const POD = { namespace: "default", name: "pod" };
const { signal } = new AbortController();

/** What coild knows of the pod. */
export const FACTS: PodFacts = {
  ...POD,
  uid: "1",
  annotations: {},
  isGateway: false,
  from: "cache",
};

/** An ADD as far as the network goes. */
export function requestFor(
  netns: string,
  containerId: string = "cid1",
  pod: NamespacedName = POD,
): AddRequest {
  return {
    containerId,
    ifname: "eth0",
    netns,
    network: "net",
    pod,
    chained: false,
    ips: [],
  };
}

/** A GC that knows of no attachment. */
export function gcOfNone(network: string = "net"): CNIArgs {
  const config = { name: network, "cni.dev/valid-attachments": [] };
  return create(CNIArgsSchema, {
    stdinData: new TextEncoder().encode(JSON.stringify(config)),
  });
}

/** What is called after a listing and before anybody acts on it. */
export interface Pauses {
  beforeList: () => Promise<void>;
  afterSurvey: (survey: Survey) => Promise<void>;
  afterList: (links: readonly PodLink[]) => Promise<void>;
}

/** coild's parts about attachments. */
export interface Parts extends AsyncDisposable {
  readonly attachments: AddressedPods;
  /** The time of the address management. */
  readonly clock: FakeClock;
  readonly ipam: NodeIpam;
  readonly locks: KeyedMutex;
  readonly reconciler: Reconciler;
  readonly pauses: Pauses;
  /** A whole ADD, with its lock. */
  add(request: AddRequest): Promise<void>;
  /** A whole DEL, with its lock and what is done behind its back. */
  del(request: AddRequest): Promise<void>;
  /** A GC of no attachment; returns what it released. */
  gc(args?: CNIArgs): Promise<string[]>;
  /** Waits for what is done behind callers' backs. */
  settle(): Promise<void>;
}

/** Ties them to each other. */
export async function partsOn(network: PodNetwork): Promise<Parts> {
  await using undo = new AsyncDisposableStack();
  const cluster = new FakeCluster();
  cluster.addPool(POOL, 3, "10.1.2.0/24");
  const locks = new KeyedMutex();
  const isBusy = (key: string) => locks.isLocked(key);
  const { clock, ipam } = undo.use(await openNode(cluster, { isBusy }));
  const teardown = undo.use(new Teardown({ ipam, network }));
  const shared = {
    ipam,
    network,
    teardown,
    locks,
    networks: new NetworkMemory(),
    metrics: new CoildMetrics(createRegistry()),
    blocks: { poolNames: () => [POOL], exports: true },
    pods: {
      poolsOf: () =>
        Promise.resolve({
          kind: "chosen" as const,
          pools: [POOL],
          from: "default" as const,
        }),
      sourcesOf: () => Promise.resolve("own" as const),
      isSynced: true,
      list: () => [],
    },
  };
  const pauses: Pauses = {
    afterSurvey: () => Promise.resolve(),
    afterList: () => Promise.resolve(),
    beforeList: () => Promise.resolve(),
  };
  const paused = {
    survey: async () => {
      const survey = await network.survey();
      await pauses.afterSurvey(survey);
      return survey;
    },
    list: async () => {
      await pauses.beforeList();
      const links = await network.list();
      await pauses.afterList(links);
      return links;
    },
  };
  const repair = new RouteRepair({
    ...shared,
    reports: { repaired: () => {} },
  });
  const garbage = new GarbageCollector({ ...shared, network: paused });
  const attachments = new AddressedPods({
    ...shared,
    garbage,
    later: queueMicrotask,
  });
  const reconciler = new Reconciler({
    ...shared,
    repair,
    quarantine: { report: () => {} },
    former: { note() {} },
    network: paused,
    intervalMs: 1,
  });
  const settle = () =>
    untilPasses(async () => {
      const { husks } = await network.survey();
      assert.deepEqual(husks, []);
      assert.ok(ipam.list().every(({ state }) => state !== "releasing"));
    });
  const locked = async (
    request: AddRequest,
    call: (held: DisposableStack) => Promise<unknown>,
  ) => {
    using held = new DisposableStack();
    held.use(await locks.lock(keyText(request)));
    await call(held);
  };
  const resources = undo.move();
  return {
    attachments,
    clock,
    ipam,
    locks,
    reconciler,
    pauses,
    settle,
    add: (request) =>
      locked(request, async (held) => {
        const options = { held, signal, announcement: undefined };
        await attachments.connect(request, FACTS, options);
      }),
    async del(request) {
      const key = { containerId: request.containerId, ifname: request.ifname };
      await locked(
        request,
        (held) => attachments.disconnect(key, { held, signal }),
      );
      await settle();
    },
    async gc(args = gcOfNone()) {
      const released: string[] = [];
      await attachments.gc(args, {
        signal,
        onReleased: (key) => released.push(keyText(key)),
      });
      await settle();
      return released;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
