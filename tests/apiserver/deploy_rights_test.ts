// Roles against the audit log: what the programs asked for while they did
// everything, and what deploy/base gives them. Nothing was refused, and nothing
// is given that is of no use.
import assert from "node:assert/strict";
import { postAnnouncement } from "./announcing.ts";
import type { EgressClientSlice } from "../../lib/api/mod.ts";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { CoilCluster, PluginError } from "../lab/coil.ts";
import { type AuditedRequest, eventually, type LabNode } from "../lab/mod.ts";
import { noteRights, rightOf, usedRights } from "../lab/rights_log.ts";
import {
  compareRights,
  grantedTo,
  rightsOf,
  type Role,
} from "../runner/rights.ts";
import { kustomize, parseManifests } from "./deploy_render.ts";
import { CLIENT, EgressLab, untilReady } from "./egress_gateway_lab.ts";

/** Fails when the account was refused anything, or has what it did not use. */
async function assertFits(
  account: string,
  { requests, granted }: {
    readonly requests: readonly AuditedRequest[];
    readonly granted?: ReadonlySet<string>;
  },
): Promise<void> {
  const used = usedRights(requests);
  const refused = requests.filter(({ user, code }) =>
    user === `system:serviceaccount:${account}` && code === 403
  );
  assert.deepEqual(refused.map(rightOf), [], "refused");
  const misfit = compareRights(account, {
    used,
    granted: granted ?? await grantedTo(account),
  });
  assert.deepEqual(misfit, { refused: [], spare: [], stale: [] });
}

/** A cluster in which the daemons have reason to do everything. */
class Scenario {
  readonly cluster: CoilCluster;
  constructor(cluster: CoilCluster) {
    this.cluster = cluster;
  }

  async run(): Promise<void> {
    const { cluster } = this;
    const [first, second] = cluster.nodes;
    assert.ok(first !== undefined && second !== undefined);
    await this.#prepare();
    await cluster.startController(["--node-grace=0s", "--gc-interval=1s"]);
    for (const node of cluster.nodes) await this.#startCoild(node);
    await using _router = await cluster.startRouter(first);
    await this.#podsComeAndGo(first);
    await this.#podsThatCannotStart(first);
    await this.#nodeGoes(second);
    await this.#egressComesAndGoes(first);
    await this.#poolGoes();
  }

  async #prepare(): Promise<void> {
    const { plane } = this.cluster;
    await plane.apply(
      pool("default", "10.2.0.0/24"),
      pool("tiny", "10.3.0.0/32"),
      namespace("tiny", { "coil.cybozu.com/pool": "tiny" }),
      namespace("none", { "coil.cybozu.com/pool": "none" }),
      namespace("nat"),
    );
    // The namespace's service account may yet have to be made.
    await eventually("the controller's pod", async () => {
      await plane.apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { namespace: "kube-system", name: "coil-controller-0" },
        spec: { containers: [{ name: "coil-controller", image: "coil:1" }] },
      });
      return true;
    });
  }

  async #startCoild(node: LabNode): Promise<void> {
    await this.cluster.startCoild(node, [
      ...["--block-return-delay=1s", "--cooldown=0s", "--low-water=0"],
      "--addressblock-gc-interval=1s",
    ]);
  }

  async #podsComeAndGo(node: LabNode): Promise<void> {
    const { cluster } = this;
    for (const name of ["a", "b"]) {
      const pod = { namespace: "default", name };
      const added = await cluster.add(
        node,
        await cluster.createSandbox(node, pod),
      );
      await cluster.del(node, added.sandbox);
      await cluster.removeSandbox(added.sandbox);
    }
    await this.#gone("addressblocks");
  }

  async #podsThatCannotStart(node: LabNode): Promise<void> {
    const { cluster } = this;
    const taken = await cluster.createSandbox(node, {
      namespace: "tiny",
      name: "first",
    });
    await cluster.add(node, taken);
    const user = "system:serviceaccount:kube-system:coild";
    const filter = { user, verb: "patch", resource: "events" };
    for (const namespace of ["tiny", "none"]) {
      const pod = { namespace, name: "second" };
      const sandbox = await cluster.createSandbox(node, pod);
      const counted = async () =>
        (await cluster.plane.auditRequests(filter)).length;
      const before = await counted();
      // The first time makes an Event, the second counts it up, or a later one when the first had another cause.
      await eventually("an Event that is counted up", async () => {
        await assert.rejects(cluster.addOnce(node, sandbox), PluginError);
        return await counted() > before;
      }, { intervalMs: 500 });
    }
    await cluster.del(node, taken);
  }

  async #nodeGoes(node: LabNode): Promise<void> {
    const { cluster } = this;
    const pod = { namespace: "default", name: "late" };
    await cluster.add(node, await cluster.createSandbox(node, pod));
    await cluster.daemonOf(node)?.kill9();
    await cluster.plane.kubectl("delete", "node", node.name);
    await this.#gone("addressblocks");
  }

  async #egressComesAndGoes(node: LabNode): Promise<void> {
    const { plane } = this.cluster;
    const path = "/apis/coil.cybozu.com/v2/namespaces/nat/egresses";
    await plane.request("POST", path, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name: "internet" },
      spec: {
        destinations: ["0.0.0.0/0"],
        podDisruptionBudget: { maxUnavailable: 1 },
      },
    });
    const there = (what: string) =>
      eventually(
        what,
        async () =>
          (await plane.kubectl("get", what, "-n", "nat", "-o", "name")) !==
            "",
      );
    for (
      const what of ["deployment", "service", "poddisruptionbudget"]
    ) await there(what);
    await eventually("its status", async () => {
      const status = await plane.kubectl(
        ...["get", "egress", "internet", "-n", "nat"],
        ...["-o", "jsonpath={.status.selector}"],
      );
      return status !== "";
    });
    await this.#clientComes(node);
    await plane.request("PATCH", `${path}/internet`, {
      spec: { podDisruptionBudget: null },
    }, { contentType: "application/merge-patch+json" });
    await this.#gone("poddisruptionbudget");
    await plane.request("DELETE", `${path}/internet`);
    await this.#gone("rolebinding");
  }

  /** coild follows an Egress from when a pod's ADD asks for it; the kernel may lack what the rest of the ADD needs. */
  async #clientComes(node: LabNode): Promise<void> {
    const { cluster } = this;
    const sandbox = await cluster.createSandbox(node, {
      namespace: "default",
      name: "client",
      annotations: { "egress.coil.cybozu.com/nat": "internet" },
    });
    await cluster.addOnce(node, sandbox).catch((error) => {
      if (!(error instanceof PluginError)) throw error;
    });
    await eventually("the watch of its gateways", async () => {
      const user = "system:serviceaccount:kube-system:coild";
      const requests = await cluster.plane.auditRequests({ user });
      return requests.some(({ verb, resource }) =>
        verb === "watch" && resource === "endpointslices"
      );
    });
    const slices = async () => {
      const path = "/apis/coil.cybozu.com/v2/namespaces/nat/egressclientslices";
      const list = await cluster.plane.request("GET", path);
      return (list as { items: EgressClientSlice[] }).items;
    };
    const count = async () =>
      (await slices()).flatMap(({ clients = [] }) => clients).length;
    await eventually("its slice", async () => await count() === 1);
    await cluster.del(node, sandbox);
    await cluster.removeSandbox(sandbox);
    await eventually("its slice without it", async () => await count() === 0);
    await cluster.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "EgressClientSlice",
      metadata: {
        namespace: "nat",
        name: "stray",
        labels: { "app.kubernetes.io/instance": "internet" },
      },
    });
    await eventually("the stray slice to be gone", async () => {
      return (await slices()).every((s) => s.metadata.name !== "stray");
    });
  }

  async #poolGoes(): Promise<void> {
    await this.cluster.plane.kubectl("delete", "addresspool", "default");
  }

  async #gone(what: string): Promise<void> {
    const { plane } = this.cluster;
    await eventually(
      `no ${what}`,
      async () =>
        (await plane.kubectl("get", what, "-n", "nat", "-o", "name")) ===
          "",
    );
  }
}

function pool(name: string, ipv4: string): unknown {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name },
    spec: { blockSizeBits: 0, subnets: [{ ipv4 }] },
  };
}

function namespace(name: string, annotations = {}): unknown {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, annotations },
  };
}

Deno.test("the daemons' rights are what they use, no more and no less", async (t) => {
  await using cluster = await CoilCluster.start({
    name: "rights",
    executable: await buildExecutable(),
    nodes: 2,
    controllerManager: true,
    families: ["ipv4"],
    audit: "metadata",
  });
  await new Scenario(cluster).run();
  const requests = await cluster.plane.auditRequests();
  await noteRights(cluster.plane);
  for (const name of ["coild", "coil-controller", "coil-router"]) {
    const account = `kube-system:${name}`;
    await t.step(account, () => assertFits(account, { requests }));
  }
});

Deno.test("the gateways' rights are what they use, no more and no less", async () => {
  await using lab = await EgressLab.start("gatewayrights");
  await using gateway = await lab.startGateway();
  await untilReady(gateway);
  await lab.createPod("coild-node1", {
    namespace: "kube-system",
    node: "node1",
    serviceAccount: "coild",
  });
  await lab.createBlock("default-1", "node1");
  const token = await lab.token({ pod: "coild-node1" });
  const client = await lab.createPod("client", { annotations: CLIENT });
  const announce = async (name: string, uid: string): Promise<number> => {
    const pod = { name, uid, address: "10.1.1.2", block: "default-1" };
    const response = await postAnnouncement(gateway.announceUrl, {
      token,
      ...pod,
    });
    await response.body?.cancel();
    return response.status;
  };
  // Its slice may come later than an announcement waits.
  await eventually(
    "the client to be served",
    async () => await announce("client", client) === 204,
  );
  // No slice has the other pod, so the gateway looks whether the controller is there.
  assert.equal(await announce("nobody", crypto.randomUUID()), 404);
  await eventually(
    "the gateway's status",
    async () => (await lab.gateways()).length > 0,
  );
  // It asks whether its pod is being deleted.
  await gateway.stop();
  const rendered = parseManifests(await kustomize("base"));
  const granted = new Set(
    ["coil-egress", "coil-egress-gateway"].flatMap((name) =>
      rightsOf(rendered.get(`ClusterRole/${name}`) as unknown as Role)
    ),
  );
  await assertFits("nat:coil-egress", {
    requests: await lab.plane.auditRequests(),
    granted,
  });
});

Deno.test("without address management nobody has rights that only announcements need", async () => {
  const token = "create serviceaccounts/token";
  const block = "get addressblocks";
  for (
    const [directory, isNeeded] of [
      ["overlays/default", true],
      ["overlays/egress-only", false],
    ] as const
  ) {
    const coild = await grantedTo("kube-system:coild", directory);
    assert.equal(coild.has(token), isNeeded, `${directory}: coild`);
    const rendered = parseManifests(await kustomize(directory));
    const gateway = rightsOf(
      rendered.get("ClusterRole/coil-egress") as unknown as Role,
    );
    for (const right of [block, "get leases"]) {
      const does = gateway.includes(right);
      assert.equal(does, isNeeded, `${directory}: gateways ${right}`);
    }
    assert.ok(gateway.includes("create tokenreviews"), directory);
  }
});
