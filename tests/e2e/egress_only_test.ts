// The overlay egress-only on a real cluster whose pods are another network's:
// Debian's bridge. Tunnels are left out, as a kernel may not have Foo-over-UDP:
// the suite vm has them. Without it neither gateways get ready nor clients
// start; both have to say why.
import assert from "node:assert/strict";
import { EGRESSES } from "../../lib/api/mod.ts";
import { DEPLOYMENTS, EVENTS } from "../../lib/kube/mod.ts";
import { eventually } from "../lab/mod.ts";
import { assertAddresses } from "./addresses.ts";
import {
  BRIDGE_CONFIGURATION,
  BRIDGE_FILE,
  BRIDGE_SUBNETS,
} from "./bridge_network.ts";
import { networkPlugins } from "./cri.ts";
import { createEgress } from "./gateways.ts";
import { assertHealthy } from "./healthy.ts";
import { Installation } from "./installation.ts";
import { isReady, type RunningPod } from "./pods.ts";
import { assertReaches } from "./reach.ts";
import { assertNothingRefused } from "./requests.ts";
import { uninstall } from "./uninstall.ts";

const EGRESS = { name: "out", namespace: "default" } as const;

let site: Installation;
/** Pods that are there from Coil's time to the end. */
let pods: readonly [RunningPod, RunningPod];

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "e2eegressonly",
    nodes: 1,
    by: "overlay egress-only",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

async function runPods(
  names: readonly [string, string],
): Promise<readonly [RunningPod, RunningPod]> {
  const [one, two] = names;
  return await Promise.all([
    site.pods.run({ name: one, node: "node1" }),
    site.pods.run({ name: two, node: "node1" }),
  ]);
}

/** They are the bridge's, and reach each other. */
async function assertConnected(
  [one, two]: readonly [RunningPod, RunningPod],
): Promise<void> {
  assertAddresses([one, two], BRIDGE_SUBNETS);
  await assertReaches(site, { from: one, to: two });
}

async function filesOf(directory: string): Promise<readonly string[]> {
  const path = `${site.node(1).directory}/${directory}`;
  const entries = await Array.fromAsync(Deno.readDir(path));
  return entries.map(({ name }) => name).sort();
}

/** The bridge's file is as its owner wrote it. */
async function assertUntouched(): Promise<void> {
  const file = `${site.node(1).directory}/cni-conf/${BRIDGE_FILE}`;
  assert.deepEqual(
    JSON.parse(await Deno.readTextFile(file)),
    BRIDGE_CONFIGURATION,
  );
}

Deno.test("egress-only: the installer makes coil part of the other network, in a copy of its configuration", async () => {
  await assertUntouched();
  await eventually("containerd to call coil behind the bridge", async () => {
    const plugins = await networkPlugins(site.node(1));
    return plugins.join() === "bridge,coil,portmap";
  });
});

Deno.test("egress-only: pods start with the other network's addresses, and reach each other", async () => {
  pods = await runPods(["one", "two"]);
  await assertConnected(pods);
});

Deno.test("egress-only: coil status finds no problem without pools", async () => {
  await assertHealthy(site);
});

Deno.test("egress-only: an Egress gets its Deployment and gateway", async () => {
  await createEgress(site, { ...EGRESS, replicas: 1 });
  const { metadata } = await site.client.get(DEPLOYMENTS, EGRESS);
  assert.deepEqual(
    metadata?.ownerReferences?.map(({ kind, name }) => `${kind} ${name}`),
    ["Egress out"],
  );
});

Deno.test("egress-only: coild is asked about a client, which runs or is told what the kernel lacks", async () => {
  const { name, namespace } = EGRESS;
  const client = "client";
  await site.pods.create({
    name: client,
    node: "node1",
    annotations: { [`egress.coil.cybozu.com/${namespace}`]: name },
  });
  await eventually("the client's state", async () => {
    const [pod] = await site.pods.list({ labelSelector: `app=${client}` });
    if (pod !== undefined && isReady(pod)) return true;
    const { items } = await site.client.list(EVENTS, {
      namespace: "default",
      fieldSelector: `involvedObject.name=${client}`,
    });
    return items.some(({ reason, source }) =>
      source?.component === "coild" && reason === "EgressUnsupported"
    );
  }, { timeoutMs: 300_000, intervalMs: 500 });
  await site.plane.kubectl("delete", "pod", client);
  await site.client.delete(EGRESSES, EGRESS);
});

Deno.test("egress-only: nothing that Coil asked the API server for was forbidden", async () => {
  await assertNothingRefused(site, ["coil-controller", "coild"]);
});

Deno.test("egress-only: Coil is uninstalled by the guide's commands; the other network goes on, with the pods of before", async () => {
  await uninstall(site);
  assert.deepEqual(await filesOf("cni-conf"), [BRIDGE_FILE]);
  const plugins = await filesOf("cni-bin");
  assert.deepEqual(plugins.filter((name) => name.startsWith("coil")), []);
  await assertUntouched();
  await eventually("containerd to call the bridge alone", async () => {
    const plugins = await networkPlugins(site.node(1));
    return plugins.join() === "bridge,portmap";
  });
  await assertConnected(pods);
  const later = await runPods(["three", "four"]);
  await assertConnected(later);
  await assertReaches(site, { from: later[0], to: pods[0] });
  await site.pods.remove(...pods, ...later);
});
