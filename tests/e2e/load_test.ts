// Many pods: as many as a node takes, all at once, and jobs that come and go.
import assert from "node:assert/strict";
import { sleep } from "../lab/mod.ts";
import { assertAddresses } from "./addresses.ts";
import { assertAgreement, assertUnique } from "./agreement.ts";
import {
  type Arrival,
  type Crowd,
  describeCrowd,
  describeLatencies,
  startCrowd,
  wordsOf,
} from "./crowd.ts";
import { Installation } from "./installation.ts";
import { BRIDGE, COIL, type Plugin } from "./plugins.ts";
import { hostPort, HTTP_PORT, podSpec } from "./pods.ts";

const LAB = "e2eload";
/** Pods that kubelet takes; upstream's default. */
const MAX_PODS = 110;
/** How long jobs come and go; ten minutes, COIL_E2E_CHURN_SECONDS=600, show more than half of one. */
const CHURN_SECONDS = Number(Deno.env.get("COIL_E2E_CHURN_SECONDS") ?? 30);
/** How often the node is filled by each plugin; two and more show what the order does. */
const ROUNDS = Number(Deno.env.get("COIL_E2E_CROWD_ROUNDS") ?? 1);
/**
 * Pods that come one after the other, and the time between two: the processors
 * have time for each. kubelet looks at its pods once a second; this time lets
 * them come at 20 moments of it, evenly, where half a second would be two.
 */
const [FEW, EVERY_MS] = [20, 525];
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

/** How many more pods node1 takes. */
async function room(): Promise<number> {
  const there = await site.pods.list({
    namespace: "kube-system",
  });
  const own = there.filter(({ spec }) => spec?.nodeName === "node1");
  return MAX_PODS - own.length;
}

/** Starts pods by a plugin, says how long each took, and ends them. */
async function crowdBy(
  { name, subnets, use, isOurs }: Plugin,
  { pods, t }: { readonly pods: Arrival; readonly t: Deno.TestContext },
): Promise<Crowd> {
  await using _network = await use(site);
  const crowd = await startCrowd(site, pods);
  await t.step(describeCrowd(`${name}, ${wordsOf(pods)}`, crowd), () => {});
  assertAddresses(crowd.pods, subnets);
  if (isOurs) await assertAgreement(site);
  await site.pods.remove(...crowd.pods);
  return crowd;
}

Deno.test("a node full of pods: all start at once, each has its own address, all go", async (t) => {
  // With all at once the processors are what pods wait for; with few, the plugin.
  const arrivals = [{ count: await room() }, { count: FEW, everyMs: EVERY_MS }];
  const all = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round++) {
    // Whoever is second finds everything warm: the order changes.
    for (const plugin of round % 2 === 0 ? [COIL, BRIDGE] : [BRIDGE, COIL]) {
      for (const pods of arrivals) {
        const { latencies } = await crowdBy(plugin, { pods, t });
        const what = `${plugin.name}, ${wordsOf(pods)}`;
        all.set(what, [...all.get(what) ?? [], ...latencies]);
      }
    }
  }
  for (const [what, latencies] of ROUNDS > 1 ? all : []) {
    const text = `${what}, ${ROUNDS} rounds: ${describeLatencies(latencies)}`;
    await t.step(text, () => {});
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
