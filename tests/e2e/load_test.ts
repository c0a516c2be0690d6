// Many pods: as many as a node takes, all at once; and one set after another.
import { hostPort } from "../../lib/inet/mod.ts";
import { DEPLOYMENTS, SERVICES } from "../../lib/kube/mod.ts";
import { eventually } from "../lab/mod.ts";
import { say } from "../runner/output.ts";
import { assertAddresses } from "./addresses.ts";
import { assertAgreement } from "./agreement.ts";
import {
  type Arrival,
  type Burst,
  describeBurst,
  describeLatencies,
  startBurst,
  wordsOf,
} from "./pod_burst.ts";
import { Installation } from "./installation.ts";
import { BRIDGE, COIL, type Plugin } from "./plugins.ts";
import { HTTP_PORT, podSpec } from "./pods.ts";

const LAB = "e2eload";
/** Pods that kubelet takes; upstream's default. */
const MAX_PODS = 110;
/** How often the node is filled by each plugin, to compare them; two and more show what the order does. Without it Coil alone fills it, once. */
const ROUNDS = Number(Deno.env.get("COIL_E2E_FILL_ROUNDS") ?? 0);
/**
 * Pods that come one after the other, and the time between two: the processors
 * have time for each. kubelet looks at its pods once a second; this time lets
 * them come at 20 moments of it, evenly, where half a second would be two.
 */
const [FEW, EVERY_MS] = [20, 525];

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
async function burstBy(
  { name, subnets, use, isOurs }: Plugin,
  { pods }: { readonly pods: Arrival },
): Promise<Burst> {
  await using _network = await use(site);
  const burst = await startBurst(site, pods);
  say(describeBurst(`${name}, ${wordsOf(pods)}`, burst));
  assertAddresses(burst.pods, subnets);
  if (isOurs) await assertAgreement(site);
  await site.pods.remove(...burst.pods);
  return burst;
}

Deno.test("a node full of pods: all start at once, each has its own address, all go", async () => {
  // With all at once the processors are what pods wait for; with few, the plugin.
  const full = { count: await room() };
  const arrivals = [full, { count: FEW, everyMs: EVERY_MS }];
  // The first burst finds everything cold, no matter whose it is: it is not compared.
  for (const pods of ROUNDS === 0 ? arrivals : [full]) {
    await burstBy({ ...COIL, name: "at first, Coil" }, { pods });
  }
  const all = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round++) {
    // The second finds everything warm: the order changes.
    for (const plugin of round % 2 === 0 ? [COIL, BRIDGE] : [BRIDGE, COIL]) {
      for (const pods of arrivals) {
        const { latencies } = await burstBy(plugin, { pods });
        const what = `${plugin.name}, ${wordsOf(pods)}`;
        all.set(what, [...all.get(what) ?? [], ...latencies]);
      }
    }
  }
  for (const [what, latencies] of ROUNDS > 1 ? all : []) {
    say(`${what}, ${ROUNDS} rounds: ${describeLatencies(latencies)}`);
  }
  await assertAgreement(site);
});

/** The names of an application's pods that have not ended. */
async function namesOf(app: string): Promise<readonly string[]> {
  const pods = await site.pods.list({ labelSelector: `app=${app}` });
  return pods.filter(({ metadata }) => !metadata?.deletionTimestamp)
    .map(({ metadata }) => metadata?.name ?? "").sort();
}

Deno.test("an application is rolled over: its Service leads to the new pods alone, whose addresses nobody else has", async () => {
  const name = "rolled";
  const labels = { app: name };
  const reference = { name, namespace: "default" };
  await site.client.create(DEPLOYMENTS, {
    metadata: reference,
    spec: {
      replicas: 6,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: podSpec() },
    },
  });
  const service = await site.client.create(SERVICES, {
    metadata: reference,
    spec: { selector: labels, ports: [{ port: 80, targetPort: HTTP_PORT }] },
  });
  const url = `http://${hostPort(service.spec?.clusterIP ?? "", 80)}/`;
  const client = await site.pods.run({ name: "asking", node: "node1" });
  const rollout = (...args: readonly string[]) =>
    site.plane.kubectl("rollout", ...args, `deployment/${name}`);
  await rollout("status", "--timeout=600s");
  const before = await namesOf(name);
  await rollout("restart");
  await rollout("status", "--timeout=600s");
  await eventually("the former pods to be gone", async () => {
    const left = await namesOf(name);
    return left.length === 6 && !left.some((pod) => before.includes(pod));
  }, { timeoutMs: 300_000 });
  await assertAgreement(site);
  const missing = new Set(await namesOf(name));
  await eventually("answers of all new pods", async () => {
    const [pod = ""] = (await site.pods.exec(client, "get", url)).split(" ");
    missing.delete(pod);
    return missing.size === 0;
  }, { timeoutMs: 300_000 });
  await site.client.delete(SERVICES, reference);
  await site.client.delete(DEPLOYMENTS, reference);
  await site.pods.remove(client);
});
