import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import type { ChainedNetwork, ChainedPod } from "../../../lib/podnet/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import type { AddRequest } from "../calls/cni_request.ts";
import type { PodFacts, PodSource } from "../cluster/pod_source.ts";
import { CoildMetrics } from "../observe/metrics.ts";
import { ChainedPods } from "./chained_pods.ts";

const { signal } = new AbortController();
const POD = { namespace: "team", name: "web" };

function requestOf(containerId: string, network = "net"): AddRequest {
  return {
    containerId,
    ifname: "eth0",
    netns: "/run/netns/a",
    network,
    pod: POD,
    chained: true,
    ips: ["10.64.0.1"],
  };
}

function factsOf(uid?: string): PodFacts {
  return {
    ...POD,
    annotations: {},
    from: "cache",
    isGateway: false,
    ...(uid !== undefined && { uid }),
  };
}

/** A GC of the network that knows of these containers. */
function gcOf(network: string, ...containers: readonly string[]): CniRequest {
  const config = {
    cniVersion: "1.1.0",
    name: network,
    "cni.dev/valid-attachments": containers.map((containerID) => ({
      containerID,
      ifname: "eth0",
    })),
  };
  return {
    containerId: "",
    ifname: "",
    args: {},
    stdinData: new TextEncoder().encode(JSON.stringify(config)),
    validAttachments: containers.map((containerId) => ({
      containerId,
      ifname: "eth0",
    })),
  } as unknown as CniRequest;
}

class Site {
  /** What was asked of the network. */
  readonly done: string[] = [];
  readonly locks = new KeyedMutex();
  readonly held = new DisposableStack();
  readonly pods: ChainedPods;
  isBroken = false;
  /** That the cache of pods has. */
  uid: string | undefined;

  constructor() {
    const note = (what: string) => ({ id }: Pick<ChainedPod, "id">) => {
      this.done.push(`${what} ${id}`);
      if (this.isBroken) throw new Error("broken");
    };
    const network = {
      adopt: async (pod: ChainedPod) => {
        note("adopt")(pod);
        return { hostName: "veth" };
      },
      abandon: async (pod: ChainedPod) => note("abandon")(pod),
      forget: (pod: ChainedPod) => void this.done.push(`forget ${pod.id}`),
      check: async (pod: ChainedPod) => note("check")(pod),
      find: (pods: readonly ChainedPod[]) => Promise.resolve(pods),
      openNetns: (pod: ChainedPod) => {
        note("open")(pod);
        return Promise.resolve(undefined);
      },
    } as unknown as ChainedNetwork;
    this.pods = new ChainedPods({
      network,
      locks: this.locks,
      pods: {
        find: () => Promise.resolve(factsOf(this.uid)),
      } as unknown as PodSource,
      metrics: new CoildMetrics(createRegistry()),
    });
  }

  async connect(request: AddRequest, uid?: string) {
    const { held } = this;
    const options = { held, signal, announcement: undefined };
    return await this.pods.connect(request, factsOf(uid), options);
  }

  async disconnect(containerId: string) {
    const key = { containerId, ifname: "eth0" };
    const { held } = this;
    return (await this.pods.disconnect(key, { held, signal })).containerId;
  }

  async gc(request: CniRequest): Promise<string[]> {
    const released: string[] = [];
    const onReleased = ({ containerId }: { containerId: string }) =>
      void released.push(containerId);
    await this.pods.gc(request, { signal, onReleased });
    return released;
  }
}

Deno.test("accept() takes only a place behind another plugin", () => {
  const { pods } = new Site();
  pods.accept(requestOf("c1"));
  assert.throws(() => pods.accept({ ...requestOf("c1"), chained: false }));
});

Deno.test("check() looks at the pod by its UID, else that of the runtime, else its container", async () => {
  const site = new Site();
  const check = async (uid?: string, told?: string) => {
    site.uid = uid;
    const args = {
      containerId: "c1",
      ifname: "eth0",
      netns: "/run/netns/a",
      ips: [],
      args: {
        K8S_POD_NAME: "web",
        K8S_POD_NAMESPACE: "team",
        IS_CHAINED: "true",
        ...told !== undefined && { K8S_POD_UID: told },
      },
      stdinData: new TextEncoder().encode(
        JSON.stringify({
          cniVersion: "1.0.0",
          name: "net",
          prevResult: {
            cniVersion: "1.0.0",
            ips: [{ address: "10.64.0.1/32" }],
          },
        }),
      ),
    } as unknown as CniRequest;
    return (await site.pods.check(args, { signal })).containerId;
  };
  assert.equal(await check("u1", "u2"), "u1");
  assert.equal(await check(undefined, "u2"), "u2");
  assert.equal(await check(), "c1");
  assert.deepEqual(site.done, ["check u1", "check u2", "check c1"]);
  site.isBroken = true;
  await assert.rejects(check("u1"), /broken/);
});

Deno.test("connect() knows a pod by its UID, and locks that too", async () => {
  const site = new Site();
  const connected = await site.connect(requestOf("c1"), "u1");
  assert.deepEqual(connected.key, { containerId: "u1", ifname: "eth0" });
  assert.equal(connected.uid, "u1");
  assert.equal(connected.addresses.ipv4?.toString(), "10.64.0.1");
  assert.deepEqual(connected.result.ips, []);
  assert.ok(site.locks.isLocked("u1:eth0"));
  site.held.dispose();
  assert.ok(!site.locks.isLocked("u1:eth0"));
  await connected.openNetns();
  assert.deepEqual(site.done, ["adopt u1", "open u1"]);
});

Deno.test("connect() knows a pod without UID by its container", async () => {
  const site = new Site();
  const connected = await site.connect(requestOf("c1"));
  assert.equal(connected.key.containerId, "c1");
  assert.equal(connected.uid, undefined);
  assert.ok(!site.locks.isLocked("c1:eth0"));
});

Deno.test("undo() abandons the pod, and throws nothing", async () => {
  for (const isBroken of [false, true]) {
    const site = new Site();
    const connected = await site.connect(requestOf("c1"), "u1");
    site.isBroken = isBroken;
    await connected.undo(site.held);
    assert.deepEqual(site.done, ["adopt u1", "forget u1", "abandon u1"]);
    assert.equal(await site.disconnect("c1"), "c1");
  }
});

Deno.test("disconnect() forgets a pod of this process, by its UID, and knows no other", async () => {
  const site = new Site();
  await site.connect(requestOf("c1"), "u1");
  site.held.dispose();
  const { pods } = site;
  assert.equal(await site.disconnect("unknown"), "unknown");
  using held = new DisposableStack();
  const key = { containerId: "c1", ifname: "eth0" };
  const own = await pods.disconnect(key, { held, signal });
  assert.equal(own.containerId, "u1");
  assert.ok(site.locks.isLocked("u1:eth0"));
  assert.deepEqual(site.done, ["adopt u1", "forget u1"]);
  assert.equal(
    (await pods.disconnect(key, { held, signal })).containerId,
    "c1",
  );
});

Deno.test("of a pod's sandboxes the last one counts", async () => {
  const site = new Site();
  await site.connect(requestOf("c1"), "u1");
  site.held.dispose();
  using held = new DisposableStack();
  const options = { held, signal, announcement: undefined };
  await site.pods.connect(requestOf("c2"), factsOf("u1"), options);
  held.dispose();
  assert.deepEqual(await site.gc(gcOf("net", "c2")), []);
  const key = { containerId: "c1", ifname: "eth0" };
  using more = new DisposableStack();
  const stale = await site.pods.disconnect(key, { held: more, signal });
  assert.equal(stale.containerId, "c1");
});

Deno.test("gc() forgets what the runtime does not have, of its own network, and nothing that is worked on", async () => {
  const site = new Site();
  for (const [n, network] of ["net", "net", "other"].entries()) {
    using held = new DisposableStack();
    const options = { held, signal, announcement: undefined };
    const request = requestOf(`c${n}`, network);
    await site.pods.connect(request, factsOf(`u${n}`), options);
  }
  assert.deepEqual(await site.gc(gcOf("net", "c0")), ["u1"]);
  {
    using _lock = await site.locks.lock("c0:eth0");
    assert.deepEqual(await site.gc(gcOf("net")), []);
  }
  assert.deepEqual(await site.gc(gcOf("net")), ["u0"]);
  assert.deepEqual(await site.gc(gcOf("net")), []);
  assert.deepEqual(await site.gc(gcOf("other")), ["u2"]);
});

Deno.test("find() looks for pods by UID and the addresses of their status", async () => {
  const { pods, done } = new Site();
  const podOf = (name: string, uid?: string) => ({
    metadata: { namespace: "team", name, ...(uid !== undefined && { uid }) },
    status: { podIPs: [{ ip: "10.64.0.1" }] },
  });
  const found = await pods.find([podOf("a", "u1"), podOf("b")]);
  assert.deepEqual([...found.keys()], ["team/a"]);
  const attachment = found.get("team/a");
  assert.deepEqual(attachment?.key, { containerId: "u1", ifname: "eth0" });
  assert.deepEqual(attachment?.addresses, {
    ipv4: Address.parse("10.64.0.1"),
  });
  await attachment?.openNetns();
  assert.deepEqual(done, ["open u1"]);
});
