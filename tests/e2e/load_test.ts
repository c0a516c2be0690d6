// Many pods: as many as a node takes, all at once.
import { assertAddresses } from "./addresses.ts";
import { assertAgreement } from "./agreement.ts";
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

const LAB = "e2eload";
/** Pods that kubelet takes; upstream's default. */
const MAX_PODS = 110;
/** How often the node is filled by each plugin; two and more show what the order does. */
const ROUNDS = Number(Deno.env.get("COIL_E2E_CROWD_ROUNDS") ?? 1);
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
