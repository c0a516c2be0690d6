// Many pods: as many as a node takes, all at once, and jobs that come and go.
import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Informer, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { assertAgreement, assertUnique } from "./agreement.ts";
import { networkNames } from "./cri.ts";
import { Installation, POOL } from "./installation.ts";
import {
  describeTime,
  readProcessorTime,
  timeBetween,
  type Usage,
} from "./processor_time.ts";
import {
  hostPort,
  HTTP_PORT,
  isReady,
  podSpec,
  runningOf,
  type RunningPod,
} from "./pods.ts";

const LAB = "e2eload";
/** Pods that kubelet takes; upstream's default. */
const MAX_PODS = 110;
const ALL_READY_MS = 300_000;
/** How long jobs come and go; ten minutes, COIL_E2E_CHURN_SECONDS=600, show more than half of one. */
const CHURN_SECONDS = Number(Deno.env.get("COIL_E2E_CHURN_SECONDS") ?? 30);
/** How often the node is filled by each plugin; two and more show what the order does. */
const ROUNDS = Number(Deno.env.get("COIL_E2E_CROWD_ROUNDS") ?? 1);
/** Pods that come one after the other, and the time between two: the processors have time for each. */
const [FEW, EVERY_MS] = [20, 500];
/** Jobs at a time, and pods of each. */
const [JOBS, JOB_PODS] = [3, 6];

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: LAB,
    nodes: 2,
    by: "overlay ipam",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

interface Crowd {
  readonly pods: readonly RunningPod[];
  /** From the creation of each to its being Ready, in milliseconds. */
  readonly latencies: readonly number[];
  /** What all programs used of the processors until all were Ready. */
  readonly time: ReadonlyMap<string, Usage>;
  /** Requests of Coil's to the API server meanwhile, without the leases that it renews by the clock. */
  readonly requests: number;
  /** What containerd took for a pod's sandbox, its network included, on average and by kubelet's clock. */
  readonly sandboxMs: number;
}

/** How many pods come, and how fast. */
interface Arrival {
  readonly count: number;
  /** Milliseconds between two; at once without it. */
  readonly everyMs?: number;
}

/** Creates so many pods on node1 and waits until all are Ready. */
async function startCrowd({ count, everyMs = 0 }: Arrival): Promise<Crowd> {
  const labels = { crowd: "yes" };
  const created = new Map<string, number>();
  const latencies = new Map<string, number>();
  const all = Promise.withResolvers<void>();
  const onPod = (pod: V1Pod) => {
    const name = pod.metadata?.name ?? "";
    const start = created.get(name);
    if (start === undefined || latencies.has(name) || !isReady(pod)) return;
    latencies.set(name, performance.now() - start);
    if (latencies.size === count) all.resolve();
  };
  const stop = new AbortController();
  const informer = new Informer(site.client, PODS, {
    namespace: "default",
    labelSelector: "crowd=yes",
    onChange: ({ type, object }) => {
      if (type !== "deleted") onPod(object);
    },
  });
  const running = informer.run(stop.signal);
  await informer.synced;
  const since = new Date();
  const sandboxes = await sandboxTime();
  const before = await readProcessorTime(LAB);
  for (let i = 0; i < count; i++) {
    const name = `crowd-${i}`;
    if (i > 0 && everyMs > 0) await sleep(everyMs);
    created.set(name, performance.now());
    await site.pods.create({ name, node: "node1", labels });
  }
  const timer = setTimeout(
    () => all.reject(new Error(`only ${latencies.size} of ${count} are Ready`)),
    ALL_READY_MS,
  );
  try {
    await all.promise;
  } finally {
    clearTimeout(timer);
    stop.abort();
    await running.catch(() => {});
  }
  const time = timeBetween(before, await readProcessorTime(LAB));
  const pods = await site.pods.list({ labelSelector: "crowd=yes" });
  const requests = await coilRequests(since);
  const now = await sandboxTime();
  const sandboxMs = 1000 * (now.seconds - sandboxes.seconds) /
    (now.count - sandboxes.count);
  return {
    ...{ pods: pods.map(runningOf), time, requests, sandboxMs },
    latencies: [...latencies.values()],
  };
}

/** What node1's kubelet counts of its calls for sandboxes. */
async function sandboxTime(): Promise<{ seconds: number; count: number }> {
  const path = "/api/v1/nodes/node1/proxy/metrics";
  const text = String(await site.plane.request("GET", path));
  const sample = (what: string) => {
    const name =
      `kubelet_runtime_operations_duration_seconds_${what}{operation_type="run_podsandbox"} `;
    const line = text.split("\n").find((each) => each.startsWith(name));
    return Number(line?.slice(name.length) ?? 0);
  };
  return { seconds: sample("sum"), count: sample("count") };
}

async function coilRequests(since: Date): Promise<number> {
  const all = await site.plane.auditRequests({ since });
  return all.filter(({ user, resource }) =>
    user.startsWith("system:serviceaccount:kube-system:coil") &&
    resource !== "leases"
  ).length;
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;
}

function describe(what: string, crowd: Crowd): string {
  const { latencies, time, requests, sandboxMs } = crowd;
  const [p50, p99] = [0.5, 0.99].map((share) =>
    (percentile(latencies, share) / 1000).toFixed(1)
  );
  const ms = describeTime(time, latencies.length);
  return `${what}: Ready after p50 ${p50} s, p99 ${p99} s; a sandbox ${
    Math.round(sandboxMs)
  } ms; ${requests} requests of Coil's; processor's ms per pod: ${ms}`;
}

/** How many more pods node1 takes. */
async function room(): Promise<number> {
  const there = await site.pods.list({
    namespace: "kube-system",
  });
  const own = there.filter(({ spec }) => spec?.nodeName === "node1");
  return MAX_PODS - own.length;
}

/** Name of Coil's network, as the manifests have it, and of the one in its place. */
const [COIL_NETWORK, BRIDGE_NETWORK] = ["k8s-pod-network", "bridge"];
const BRIDGE_SUBNETS = ["10.110.0.0/16", "fd02:6e::/112"] as const;

/** Debian's bridge plugin, with its addresses; the rest as in Coil's configuration. */
const BRIDGE_CONFIGURATION = {
  cniVersion: "1.0.0",
  name: BRIDGE_NETWORK,
  plugins: [{
    type: "bridge",
    bridge: "cni0",
    isGateway: true,
    ipam: {
      type: "host-local",
      ranges: BRIDGE_SUBNETS.map((subnet) => [{ subnet }]),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  }, { type: "portmap", capabilities: { portMappings: true } }],
};

/** Gives node1 the bridge plugin in Coil's place, until disposed of; containerd knows it when this returns. */
async function bridgeInstead(): Promise<AsyncDisposable> {
  const directory = `${site.node(1).directory}/cni-conf`;
  const [coil, away] = [
    `${directory}/10-coil.conflist`,
    `${directory}/10-coil.conflist.away`,
  ];
  const bridge = `${directory}/20-bridge.conflist`;
  await using undo = new AsyncDisposableStack();
  await Deno.writeTextFile(bridge, JSON.stringify(BRIDGE_CONFIGURATION));
  undo.defer(() => Deno.remove(bridge));
  await Deno.rename(coil, away);
  undo.defer(async () => {
    await Deno.rename(away, coil);
    await usesNetwork(COIL_NETWORK);
  });
  await usesNetwork(BRIDGE_NETWORK);
  return undo.move();
}

/** Waits until node1's containerd, which sees changed files by itself, puts pods into this network. */
async function usesNetwork(name: string): Promise<void> {
  await eventually(`containerd to use network "${name}"`, async () => {
    const names = await networkNames(site.node(1));
    return names.includes(name);
  }, { timeoutMs: 60_000 });
}

/** Each pod has one address of each subnet, and nobody has another's. */
function assertAddresses(
  { pods }: Crowd,
  subnets: readonly string[],
): void {
  const prefixes = subnets.map((subnet) => Prefix.parse(subnet));
  for (const { name, addresses } of pods) {
    const parsed = addresses.map((address) => Address.parse(address));
    const told = `${name} has ${addresses.join()}, not of ${subnets.join()}`;
    assert.equal(parsed.length, prefixes.length, told);
    for (const prefix of prefixes) {
      assert.ok(parsed.some((address) => prefix.contains(address)), told);
    }
  }
  const all = new Set(pods.flatMap(({ addresses }) => addresses));
  assert.equal(all.size, subnets.length * pods.length);
}

/** Starts pods by Coil, says how long each took, and ends them. */
async function crowdByCoil(t: Deno.TestContext, pods: Arrival): Promise<void> {
  await usesNetwork(COIL_NETWORK);
  const crowd = await startCrowd(pods);
  await t.step(describe(`Coil, ${wordsOf(pods)}`, crowd), () => {});
  assertAddresses(crowd, [POOL.ipv4, POOL.ipv6]);
  await assertAgreement(site);
  await site.pods.remove(...crowd.pods);
}

/** The same by Debian's bridge plugin, in Coil's place on the same node. */
async function crowdByBridge(
  t: Deno.TestContext,
  pods: Arrival,
): Promise<void> {
  await using _bridge = await bridgeInstead();
  const crowd = await startCrowd(pods);
  await t.step(describe(`bridge, ${wordsOf(pods)}`, crowd), () => {});
  assertAddresses(crowd, BRIDGE_SUBNETS);
  await site.pods.remove(...crowd.pods);
}

function wordsOf({ count, everyMs }: Arrival): string {
  return everyMs === undefined
    ? `${count} pods at once`
    : `${count} pods, one each ${everyMs} ms`;
}

Deno.test("a node full of pods: all start at once, each has its own address, all go", async (t) => {
  const count = await room();
  for (let round = 0; round < ROUNDS; round++) {
    // Whoever is second finds everything warm: the order changes.
    const crowds = [crowdByCoil, crowdByBridge];
    for (const crowd of round % 2 === 0 ? crowds : crowds.reverse()) {
      // With all at once the processors are what pods wait for; with few, the plugin.
      await crowd(t, { count });
      await crowd(t, { count: FEW, everyMs: EVERY_MS });
    }
  }
  await assertAgreement(site);
});

/** A Job whose pods ask the server once and end. */
async function runJob(name: string, url: string): Promise<void> {
  await site.plane.apply({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: "default" },
    spec: {
      parallelism: JOB_PODS,
      completions: JOB_PODS,
      backoffLimit: 0,
      template: {
        spec: { ...podSpec({ args: ["once", url] }), restartPolicy: "Never" },
      },
    },
  });
  await site.plane.kubectl(
    ...["wait", "--for=condition=Complete", `job/${name}`, "--timeout=180s"],
  );
  await site.plane.kubectl(
    "delete",
    "job",
    name,
    "--cascade=foreground",
    "--timeout=120s",
  );
}

Deno.test(`jobs come and go for ${CHURN_SECONDS} s: not one address is lost or doubled`, async (t) => {
  const servers = await Promise.all(
    ["node1", "node2"].map((node) =>
      site.pods.run({ name: `server-${node}`, node })
    ),
  );
  const urls = servers.flatMap(({ addresses }) => addresses)
    .map((address) => `http://${hostPort(address, HTTP_PORT)}/`);
  const end = performance.now() + CHURN_SECONDS * 1000;
  let jobs = 0;
  const rows = Array.from({ length: JOBS }, async () => {
    while (performance.now() < end) {
      const number = jobs++;
      await runJob(`job-${number}`, urls[number % urls.length] ?? "");
    }
  });
  const looking = (async () => {
    while (performance.now() < end) {
      await assertUnique(site);
      await sleep(3_000);
    }
  })();
  await Promise.all([...rows, looking]);
  await t.step(`${jobs} jobs of ${JOB_PODS} pods`, () => {});
  await assertAgreement(site);
  await site.pods.remove(...servers);
  await assertAgreement(site);
  for (const node of site.nodes) {
    assert.deepEqual(await podLinks(node.name), [], `links of ${node.name}`);
  }
});

async function podLinks(name: string): Promise<readonly string[]> {
  const node = site.nodes.find((n) => n.name === name);
  const text = await node?.run("ip", ["-j", "link", "show"]) ?? "[]";
  return (JSON.parse(text) as { ifalias?: string }[])
    .flatMap(({ ifalias = "" }) => ifalias.startsWith("COIL") ? [ifalias] : []);
}
