// Many pods: as many as a node takes, all at once, and jobs that come and go.
import assert from "node:assert/strict";
import { Informer, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { sleep } from "../lab/mod.ts";
import { assertAgreement, assertUnique } from "./agreement.ts";
import { Installation } from "./installation.ts";
import {
  hostPort,
  HTTP_PORT,
  isReady,
  podSpec,
  runningOf,
  type RunningPod,
} from "./pods.ts";

/** Pods that kubelet takes; upstream's default. */
const MAX_PODS = 110;
const ALL_READY_MS = 300_000;
/** How long jobs come and go; ten minutes show more than one. */
const CHURN_SECONDS = Number(Deno.env.get("COIL_E2E_CHURN_SECONDS") ?? 60);
/** Jobs at a time, and pods of each. */
const [JOBS, JOB_PODS] = [3, 6];

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({ name: "e2eload", nodes: 2, by: "helm" });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

interface Crowd {
  readonly pods: readonly RunningPod[];
  /** From the creation of each to its being Ready, in milliseconds. */
  readonly latencies: readonly number[];
}

/** Creates so many pods on node1 at once and waits until all are Ready. */
async function startCrowd(count: number): Promise<Crowd> {
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
  for (let i = 0; i < count; i++) {
    const name = `crowd-${i}`;
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
  const pods = await site.pods.list({ labelSelector: "crowd=yes" });
  return { pods: pods.map(runningOf), latencies: [...latencies.values()] };
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;
}

function describe(what: string, { latencies }: Crowd): string {
  const [p50, p99] = [0.5, 0.99].map((share) =>
    (percentile(latencies, share) / 1000).toFixed(1)
  );
  return `${what}: ${latencies.length} pods at once, Ready after p50 ${p50} s, p99 ${p99} s`;
}

/** How many more pods node1 takes. */
async function room(): Promise<number> {
  const there = await site.pods.list({
    namespace: "kube-system",
  });
  const own = there.filter(({ spec }) => spec?.nodeName === "node1");
  return MAX_PODS - own.length;
}

/** Gives node1 Debian's bridge plugin in Coil's place, until disposed of. */
async function bridgeInstead(): Promise<AsyncDisposable> {
  const directory = `${site.node(1).directory}/cni-conf`;
  const [coil, away] = ["10-coil.conflist", "10-coil.conflist.away"]
    .map((name) => `${directory}/${name}`) as [string, string];
  const bridge = `${directory}/20-bridge.conflist`;
  const ranges = ["10.110.0.0/16", "fd02:6e::/112"]
    .map((subnet) => [{ subnet }]);
  await Deno.writeTextFile(
    bridge,
    JSON.stringify({
      cniVersion: "1.0.0",
      name: "bridge",
      plugins: [{
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipam: {
          type: "host-local",
          ranges,
          routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
        },
      }, {
        // As in Coil's configuration.
        type: "portmap",
        capabilities: { portMappings: true },
      }],
    }),
  );
  await Deno.rename(coil, away);
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      await Deno.rename(away, coil);
      await Deno.remove(bridge);
    },
  };
}

Deno.test("a node full of pods: all start at once, each has its own address, all go", async (t) => {
  const count = await room();
  const coil = await startCrowd(count);
  await t.step(describe("Coil", coil), () => {});
  const addresses = coil.pods.flatMap((pod) => pod.addresses);
  assert.equal(new Set(addresses).size, 2 * count);
  await assertAgreement(site);
  await site.pods.remove(...coil.pods);
  await assertAgreement(site);
  {
    await using _bridge = await bridgeInstead();
    // containerd reads its configuration when it sees the change.
    await sleep(2_000);
    const bridge = await startCrowd(count);
    await t.step(describe("Debian's bridge plugin", bridge), () => {});
    await site.pods.remove(...bridge.pods);
  }
  await sleep(2_000);
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
