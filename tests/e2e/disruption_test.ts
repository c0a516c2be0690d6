// What happens to a real cluster's pods when something of their node ends.
import assert from "node:assert/strict";
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import { DEPLOYMENTS, NODES, PODS } from "../../lib/kube/mod.ts";
import { NODE_LABEL } from "../../lib/names/mod.ts";
import type { NodeDaemon } from "../lab/cluster/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { assertAddresses } from "./addresses.ts";
import { assertAgreement } from "./agreement.ts";
import { killCoild } from "./coild_container.ts";
import { Installation } from "./installation.ts";
import { buildNextImage, digestOfPlugin } from "./next_image.ts";
import { isReady, podSpec, type RunningPod } from "./pods.ts";
import { Traffic } from "./traffic.ts";
import { uninstall } from "./uninstall.ts";

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "e2edisruption",
    nodes: 2,
    by: "chart",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

/** For tests after which a node's programs, which outlive them, are others. */
const RESTARTS = { sanitizeResources: false, sanitizeOps: false };
const PATIENCE = { timeoutMs: 300_000, intervalMs: 500 };

let shared: Traffic | undefined;

/** The same for all tests that leave their nodes be: it takes time to start. */
async function sharedTraffic(): Promise<Traffic> {
  return shared ??= await Traffic.start(site, "shared");
}

/** Ends it: a node goes. */
async function endSharedTraffic(): Promise<void> {
  await shared?.[Symbol.asyncDispose]();
  shared = undefined;
}

async function restartsOf(pod: RunningPod): Promise<number> {
  const { name, namespace } = pod;
  const { status } = await site.client.get(PODS, { name, namespace });
  return status?.containerStatuses?.[0]?.restartCount ?? -1;
}

/** The executable of each node's plugin, as it was before the installer wrote the socket into it. */
async function executableDigests(): Promise<readonly string[]> {
  return await Promise.all(
    site.nodes.map(({ directory }) =>
      digestOfPlugin(`${directory}/cni-bin/coil`)
    ),
  );
}

/** Has every program of Coil, the installer included, run from this image. */
async function upgradeTo(reference: string): Promise<void> {
  for (const what of site.workloads) {
    await site.plane.kubectl(
      ...["-n", "kube-system", "set", "image", what, `*=${reference}`],
    );
  }
  await site.rolledOut();
}

/** Pods come and go on all nodes until something is done; at least one on each. */
async function podsUntil(done: Promise<void>): Promise<void> {
  let isDone = false;
  const noting = done.finally(() => isDone = true);
  const rows = site.nodes.map(async ({ name: node }) => {
    for (let round = 0; round === 0 || !isDone; round++) {
      const name = `concurrent-${node}-${round}`;
      await site.pods.remove(await site.pods.run({ name, node }));
    }
  });
  await Promise.all([noting, ...rows]);
}

Deno.test("all of Coil is upgraded to another image while traffic goes on and pods come and go", async () => {
  const next = await buildNextImage();
  for (const node of site.nodes) await node.importImage(next.path);
  assert.ok(!(await executableDigests()).includes(next.executable));
  const traffic = await sharedTraffic();
  await traffic.during(async () => {
    await podsUntil(upgradeTo(next.reference));
    assert.deepEqual(await executableDigests(), [
      next.executable,
      next.executable,
    ]);
    await assertAgreement(site);
  });
});

Deno.test("coild is killed: pods keep their network, addresses and routes are found again", async () => {
  const traffic = await sharedTraffic();
  await traffic.during(async () => {
    for (const node of site.nodes) {
      await (await killCoild(site, node)).replaced();
    }
    const started = await site.pods.run({ name: "after-kill", node: "node1" });
    await site.rolledOut();
    await assertAgreement(site);
    await site.pods.remove(started);
  });
});

for (
  const { daemon, signal } of [
    { daemon: "containerd", signal: "SIGTERM" },
    { daemon: "containerd", signal: "SIGKILL" },
    { daemon: "kubelet", signal: "SIGTERM" },
    { daemon: "kubelet", signal: "SIGKILL" },
  ] as const satisfies readonly { daemon: NodeDaemon; signal: Deno.Signal }[]
) {
  Deno.test(
    `${daemon} is restarted (${signal}): pods go on, others come and go`,
    RESTARTS,
    async () => {
      const traffic = await sharedTraffic();
      const leaving = await site.pods.run({ name: "leaving", node: "node2" });
      await traffic.during(async () => {
        await site.node(2).stop(daemon, { signal });
        await site.node(2).start(daemon);
        await site.pods.remove(leaving);
        const coming = await site.pods.run({ name: "coming", node: "node2" });
        await assertAgreement(site);
        await site.pods.remove(coming);
      });
      assert.equal(await restartsOf(traffic.server), 0);
    },
  );
}

Deno.test(
  "the API server is away: pods talk, and start when it is back",
  RESTARTS,
  async () => {
    const traffic = await sharedTraffic();
    const leaving = await site.pods.run({ name: "leaving", node: "node1" });
    await traffic.during(async () => {
      await site.plane.killApiServer();
      await sleep(5_000);
      await site.plane.startApiServer();
      const coming = await site.pods.run({ name: "coming", node: "node1" });
      await site.pods.remove(leaving, coming);
      await site.rolledOut();
      await assertAgreement(site);
    });
  },
);

Deno.test("a StatefulSet's pod comes back under its name, with an address that nobody else has", async () => {
  const name = "stateful";
  const labels = { app: name };
  await site.plane.apply({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name, namespace: "default" },
    spec: {
      replicas: 2,
      serviceName: name,
      podManagementPolicy: "Parallel",
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: podSpec() },
    },
  });
  for (const force of [[], ["--grace-period=0", "--force"]]) {
    const before = await site.pods.ready(`${name}-0`);
    await site.plane.kubectl("delete", "pod", before.name, ...force);
    const after = await site.pods.ready(before.name, { not: before.uid });
    assert.notEqual(after.uid, before.uid);
    await site.pods.ready(`${name}-1`);
    await assertAgreement(site);
  }
  await site.plane.kubectl(
    "delete",
    "statefulset",
    name,
    "--cascade=foreground",
    "--timeout=300s",
  );
  await assertAgreement(site);
});

Deno.test(
  "a node is rebooted: its pods run again, nothing is left of their earlier networks",
  RESTARTS,
  async () => {
    await endSharedTraffic();
    const pods = await Promise.all(
      ["one", "two", "three"].map((name) =>
        site.pods.run({ name: `reboot-${name}`, node: "node2" })
      ),
    );
    await site.node(2).powerOff();
    await site.node(2).boot();
    for (const pod of pods) {
      await eventually(
        `${pod.name} to run again`,
        async () => await restartsOf(pod) > 0,
        PATIENCE,
      );
      await site.pods.ready(pod.name);
    }
    await site.rolledOut();
    await assertAgreement(site);
    await using traffic = await Traffic.start(site, "reboot");
    await traffic.during(() => sleep(1_000));
    await site.pods.remove(...pods);
  },
);

async function blocksOf(node: string): Promise<number> {
  const labelSelector = `${NODE_LABEL}=${node}`;
  return (await site.client.list(ADDRESS_BLOCKS, { labelSelector })).items
    .length;
}

Deno.test(
  "E2E-10: a node is drained and removed: its pods move, its blocks go back, and it can return",
  RESTARTS,
  async () => {
    await endSharedTraffic();
    const name = "moving";
    const labels = { app: name };
    await site.client.create(DEPLOYMENTS, {
      metadata: { name, namespace: "default" },
      spec: {
        replicas: 4,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: podSpec() },
      },
    });
    await eventually("4 pods", async () => {
      const { status } = await site.client.get(DEPLOYMENTS, {
        name,
        namespace: "default",
      });
      return status?.availableReplicas === 4;
    }, PATIENCE);
    await site.plane.kubectl(
      ...["drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data"],
      ...["--force", "--timeout=300s"],
    );
    // The Deployment's status may still be that of before.
    await eventually("4 pods on node1 alone", async () => {
      const pods = await site.pods.list({ labelSelector: `app=${name}` });
      const nodes = pods.filter(isReady).map(({ spec }) => spec?.nodeName);
      assert.deepEqual(nodes, Array(4).fill("node1"));
      return true;
    }, PATIENCE);
    await assertAgreement(site);

    await site.node(2).powerOff();
    await site.client.delete(NODES, { name: "node2" });
    await eventually(
      "no block of node2",
      async () => await blocksOf("node2") === 0,
      PATIENCE,
    );

    await site.node(2).boot();
    await site.cluster.waitReady();
    const pod = await site.pods.run({ name: "returned", node: "node2" });
    await site.rolledOut();
    await assertAgreement(site);
    await site.pods.remove(pod);
    await site.client.delete(DEPLOYMENTS, { name, namespace: "default" });
  },
);

/** Two pods of this namespace on a node. */
async function runTwo(
  prefix: string,
  { node, namespace }: { readonly node: string; readonly namespace: string },
): Promise<readonly RunningPod[]> {
  return await Promise.all(
    ["one", "two"].map((each) =>
      site.pods.run({ name: `${prefix}-${each}`, node, namespace })
    ),
  );
}

/** What an admin does, once kubelet goes by its new name. */
async function deleteNode(name: string): Promise<void> {
  await site.plane.kubectl("delete", "node", name);
  await site.plane.kubectl(
    ...["delete", "pods", "--all-namespaces", "--force"],
    ...["--grace-period=0", `--field-selector=spec.nodeName=${name}`],
  );
}

Deno.test(
  "a node gets another name without a drain: no address is doubled, and those of its former pods come back",
  RESTARTS,
  async () => {
    await endSharedTraffic();
    const [former, name] = [site.node(2).name, "renamed"];
    // As many addresses as pods run at a time: one that is lost would be missing.
    const namespace = "rename";
    const subnet = { ipv4: "10.104.0.0/30" };
    await site.createPoolAndNamespace(namespace, subnet, { blockSizeBits: 0 });
    const old = await runTwo("former", { node: former, namespace });
    await site.node(2).rename(name);
    // kubelet starts them before it has ended what ran under the former name, coild included.
    const fresh = await runTwo("fresh", { node: name, namespace });
    assertAddresses([...old, ...fresh], [subnet.ipv4]);
    // Nothing of the former pods is left on the machine.
    await assertAgreement(site);

    await deleteNode(former);
    await eventually(
      "no block of the former name",
      async () => await blocksOf(former) === 0,
      PATIENCE,
    );
    const heirs = await runTwo("heir", { node: "node1", namespace });
    assertAddresses([...fresh, ...heirs], [subnet.ipv4]);
    await site.rolledOut();
    await assertAgreement(site);
    await site.pods.remove(...fresh, ...heirs);
    await assertAgreement(site);
  },
);

Deno.test(
  "Coil is uninstalled by the guide's commands: nodes and API server have nothing of it",
  RESTARTS,
  async () => {
    await uninstall(site);
    for (const { directory, name } of site.nodes) {
      assert.deepEqual(await namesIn(`${directory}/cni-conf`), [], name);
      const plugins = await namesIn(`${directory}/cni-bin`);
      const ours = plugins.filter((plugin) => plugin.startsWith("coil"));
      assert.deepEqual(ours, [], name);
    }
    const left = await site.plane.kubectl(
      "get",
      "crd,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount," +
        "daemonset,deployment,configmap,lease,poddisruptionbudget," +
        "validatingadmissionpolicy,validatingadmissionpolicybinding",
      ...["-A", "-o", "name"],
    );
    assert.deepEqual(left.split("\n").filter((l) => /coil/.test(l)), []);
  },
);

async function namesIn(directory: string): Promise<readonly string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  return entries.map(({ name }) => name).sort();
}
