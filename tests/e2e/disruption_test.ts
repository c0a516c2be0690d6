// What happens to a real cluster's pods when something of their node ends.
import assert from "node:assert/strict";
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import { DEPLOYMENTS, NODES, PODS, SERVICES } from "../../lib/kube/mod.ts";
import { NODE_LABEL } from "../../lib/names/mod.ts";
import type { NodeDaemon } from "../lab/cluster/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { assertAgreement } from "./agreement.ts";
import { Installation } from "./installation.ts";
import { buildNextImage, digestOfFile } from "./next_image.ts";
import { hostPort, HTTP_PORT, podSpec, type RunningPod } from "./pods.ts";

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "e2edisruption",
    nodes: 2,
    by: "kustomize",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

/** For tests after which a node's programs, which outlive them, are others. */
const RESTARTS = { sanitizeResources: false, sanitizeOps: false };
const PATIENCE = { timeoutMs: 120_000, intervalMs: 500 };

interface TrafficCount {
  readonly url: string;
  readonly done: number;
  readonly failed: number;
  readonly last?: string;
}

/** A pod that asks a pod of the other node, directly and by a Service, without a pause. */
class Traffic implements AsyncDisposable {
  readonly client: RunningPod;
  readonly server: RunningPod;

  private constructor(client: RunningPod, server: RunningPod) {
    this.client = client;
    this.server = server;
  }

  static async start(name: string): Promise<Traffic> {
    const labels = { service: name };
    const server = await site.pods.run({
      name: `${name}-server`,
      node: "node2",
      labels,
    });
    const service = await site.client.create(SERVICES, {
      metadata: { name, namespace: "default" },
      spec: {
        selector: labels,
        ipFamilyPolicy: "RequireDualStack",
        ports: [{ port: HTTP_PORT }],
      },
    });
    const urls = [...server.addresses, ...service.spec?.clusterIPs ?? []]
      .map((address) => `http://${hostPort(address, HTTP_PORT)}/`);
    const client = await site.pods.run({
      name: `${name}-client`,
      node: "node1",
      args: ["traffic", ...urls],
    });
    const traffic = new Traffic(client, server);
    // kube-proxy needs a moment: what counts are failures from now on.
    await eventually("traffic on every way", async () => {
      const counts = await traffic.counts();
      return counts.every(({ done }) => done > 10);
    });
    return traffic;
  }

  async counts(): Promise<readonly TrafficCount[]> {
    const own = `http://127.0.0.1:${HTTP_PORT}/`;
    return JSON.parse(await site.pods.exec(this.client, "get", own));
  }

  /** Does something, and lets no request fail meanwhile. */
  async during(work: () => Promise<void>): Promise<void> {
    const before = await this.counts();
    await work();
    // Whatever comes late has its chance.
    await sleep(500);
    const after = await this.counts();
    for (const [index, { url, done, failed, last }] of after.entries()) {
      assert.equal(failed, before[index]?.failed, `${url}: ${last}`);
      assert.ok(done > (before[index]?.done ?? 0), `${url}: nothing was asked`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const name = this.server.name.replace(/-server$/, "");
    await site.client.delete(SERVICES, { name, namespace: "default" });
    await site.pods.remove(this.client, this.server);
  }
}

async function restartsOf(pod: RunningPod): Promise<number> {
  const { name, namespace } = pod;
  const { status } = await site.client.get(PODS, { name, namespace });
  return status?.containerStatuses?.[0]?.restartCount ?? -1;
}

/** The plugin of each node, as its runtime calls it. */
async function pluginDigests(): Promise<readonly string[]> {
  return await Promise.all(
    site.nodes.map(({ directory }) =>
      digestOfFile(`${directory}/cni-bin/coil`)
    ),
  );
}

/** Has every program of Coil, the installer included, run from this image. */
async function upgradeTo(reference: string): Promise<void> {
  for (
    const what of ["ds/coild", "ds/coil-router", "deploy/coil-controller"]
  ) {
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
      const name = `meanwhile-${node}-${round}`;
      await site.pods.remove(await site.pods.run({ name, node }));
    }
  });
  await Promise.all([noting, ...rows]);
}

Deno.test("all of Coil is upgraded to another image while traffic goes on and pods come and go", async () => {
  const next = await buildNextImage();
  for (const node of site.nodes) await node.importImage(next.path);
  assert.ok(!(await pluginDigests()).includes(next.executable));
  await using traffic = await Traffic.start("upgrade");
  await traffic.during(async () => {
    await podsUntil(upgradeTo(next.reference));
    assert.deepEqual(await pluginDigests(), [next.executable, next.executable]);
    await assertAgreement(site);
  });
});

Deno.test("coild is killed: pods keep their network, addresses and routes are found again", async () => {
  await using traffic = await Traffic.start("kill");
  await traffic.during(async () => {
    for (const node of site.nodes) await killCoild(node.name);
    const started = await site.pods.run({ name: "after-kill", node: "node1" });
    await site.rolledOut();
    await assertAgreement(site);
    await site.pods.remove(started);
  });
});

/** SIGKILL to the container's first process, and the wait for its successor. */
async function killCoild(nodeName: string): Promise<void> {
  const pod = async () => {
    const pods = await site.pods.list({
      namespace: "kube-system",
      labelSelector: "app.kubernetes.io/component=coild",
    });
    return pods.find(({ spec }) => spec?.nodeName === nodeName);
  };
  const status = async () => (await pod())?.status?.containerStatuses?.[0];
  const before = await status();
  const id = before?.containerID?.replace("containerd://", "") ?? "";
  const node = site.nodes.find(({ name }) => name === nodeName);
  await node?.run("ctr", ["-n", "k8s.io", "tasks", "kill", "-s", "9", id]);
  await eventually(`another coild on ${nodeName}`, async () => {
    const now = await status();
    return now?.ready === true && now.containerID !== before?.containerID;
  }, PATIENCE);
}

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
      await using traffic = await Traffic.start(
        `${daemon}-${signal}`.toLowerCase(),
      );
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
    await using traffic = await Traffic.start("outage");
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
    "--timeout=120s",
  );
  await assertAgreement(site);
});

Deno.test(
  "a node is rebooted: its pods run again, nothing is left of their earlier networks",
  RESTARTS,
  async () => {
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
    await using traffic = await Traffic.start("reboot");
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
    const available = () =>
      eventually("4 pods", async () => {
        const { status } = await site.client.get(DEPLOYMENTS, {
          name,
          namespace: "default",
        });
        return status?.availableReplicas === 4;
      }, PATIENCE);
    await available();
    await site.plane.kubectl(
      ...["drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data"],
      ...["--force", "--timeout=120s"],
    );
    await available();
    for (
      const { spec } of await site.pods.list({ labelSelector: `app=${name}` })
    ) {
      assert.equal(spec?.nodeName, "node1");
    }
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
