import assert from "node:assert/strict";
import { KubeClient } from "../../lib/kube/mod.ts";
import { eventually } from "../lab/mod.ts";
import { collectionsOf } from "./audited.ts";
import { ClientsKernel } from "./clients_kernel.ts";
import {
  assertClients,
  CLIENT,
  EgressLab,
  reportMs,
  untilReady,
} from "./egress_gateway_lab.ts";
import { GatedTransport } from "./gated_transport.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egresspods");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

/** For tests after which the API server, which outlives them, is another process. */
const RESTARTS = { sanitizeResources: false, sanitizeOps: false };

/** Removes the pods of a test. */
async function removePods(): Promise<void> {
  await lab.plane.request("DELETE", "/api/v1/namespaces/team/pods", {
    apiVersion: "v1",
    kind: "DeleteOptions",
    gracePeriodSeconds: 0,
  });
  await eventually("no pods", async () => {
    const list = await lab.plane.request(
      "GET",
      "/api/v1/namespaces/team/pods?limit=1",
    );
    return (list as { items: unknown[] }).items.length === 0;
  });
}

Deno.test("coil-egress follows its clients (CT-28 to CT-32)", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  await lab.runPod("dual", ["10.1.1.2", "fd01::2"], { annotations: CLIENT });
  await lab.runPod("v6", ["fd01::3"], {
    annotations: { "egress.coil.cybozu.com/nat": "dmz, internet ,," },
  });
  await lab.runPod("none", ["10.1.1.4"]);
  await lab.runPod("other-name", ["10.1.1.5"], {
    annotations: { "egress.coil.cybozu.com/nat": "dmz" },
  });
  await lab.runPod("other-namespace", ["10.1.1.6"], {
    annotations: { "egress.coil.cybozu.com/team": "internet" },
  });
  await lab.runPod("done", ["10.1.1.7"], {
    annotations: CLIENT,
    phase: "Succeeded",
  });
  await lab.runPod("host", ["10.1.1.8"], {
    annotations: CLIENT,
    hostNetwork: true,
  });
  const kernel = new ClientsKernel();
  const { promise, resolve: open } = Promise.withResolvers<void>();
  kernel.gate = promise;
  await using gateway = await lab.startGateway({ kernel });
  const count = async () => {
    const [line = ""] = await gateway.metrics("coil_egress_client_pod_count");
    return Number(line.split(" ").at(-1));
  };

  await t.step("CT-28: ready only when all are in the kernel", async () => {
    await eventually("the first call", () => kernel.calls.length > 0);
    const { status, body } = await gateway.ready();
    assert.equal(status, 500);
    assert.match(body, /\[-\]pod-sync failed: the clients are not in/);
    open();
    await untilReady(gateway);
    assert.deepEqual(kernel.calls, ["set 3"]);
    await assertClients(kernel, ["10.1.1.2", "fd01::2", "fd01::3"]);
    assert.equal(await count(), 2);
    const info = await gateway.metrics("coil_egress_client_pod_info");
    assert.equal(info.length, 3);
  });

  await t.step(
    "it watches the slices of its Egress, and lists and watches nothing else",
    async () => {
      const user = "system:serviceaccount:nat:coil-egress";
      const [collection, ...others] = await collectionsOf(lab.plane, { user });
      assert.deepEqual(others, []);
      assert.match(
        collection ?? "",
        /^watch \/apis\/coil.cybozu.com\/v2\/namespaces\/nat\/egressclientslices .*\bapp.kubernetes.io\/instance=internet\b/,
      );
    },
  );

  await t.step("CT-29: a new client, and a new pod that is none", async () => {
    await lab.runPod("none2", ["10.1.1.9"]);
    await lab.createPod("late", { annotations: CLIENT });
    await eventually("the count", async () => await count() === 3);
    await lab.setStatus("late", ["10.1.1.10"]);
    const wanted = ["10.1.1.10", "10.1.1.2", "fd01::2", "fd01::3"];
    await assertClients(kernel, wanted);
  });

  await t.step("CT-30: an annotation comes, an address changes", async () => {
    await lab.annotate("none", CLIENT);
    await lab.setStatus("dual", ["10.1.1.20", "fd01::2"]);
    const wanted = ["10.1.1.10", "10.1.1.20", "10.1.1.4", "fd01::2", "fd01::3"];
    await assertClients(kernel, wanted);
    assert.equal(await count(), 4);
  });

  await t.step("an annotation goes or names others", async () => {
    await lab.annotate("none", { "egress.coil.cybozu.com/nat": null });
    await lab.annotate("v6", { "egress.coil.cybozu.com/nat": "dmz" });
    await assertClients(kernel, ["10.1.1.10", "10.1.1.20", "fd01::2"]);
  });

  await t.step("CT-31: a client is deleted", async () => {
    await lab.deletePod("dual");
    await assertClients(kernel, ["10.1.1.10"]);
    assert.equal(await count(), 1);
  });

  await t.step("a pod of the same name is another pod", async () => {
    await lab.deletePod("late");
    await lab.runPod("late", ["10.1.1.11"], { annotations: CLIENT });
    await assertClients(kernel, ["10.1.1.11"]);
  });

  await t.step(
    "a client is served by one change each, which nothing holds up",
    async () => {
      const tookMs: number[] = [];
      const calls = kernel.calls.length;
      for (let n = 0; n < 5; n++) {
        const address = `10.1.2.${n}`;
        await lab.createPod(`soon-${n}`, { annotations: CLIENT });
        const startMs = performance.now();
        await lab.setStatus(`soon-${n}`, [address]);
        await eventually("the client", () => kernel.clients.has(address), {
          intervalMs: 1,
        });
        tookMs.push(performance.now() - startMs);
      }
      assert.deepEqual(
        kernel.calls.slice(calls),
        tookMs.map(() => "add 1 remove 0"),
      );
      // The whole way, from the write of the status to the kernel.
      reportMs("from a client's status to the kernel", tookMs);
    },
  );
});

Deno.test("coil-egress keeps an address as long as one live pod has it (CT-33, CT-34, W33, W35)", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  const job = { annotations: CLIENT };

  await t.step("CT-33: taken over after the Job's end", async () => {
    await lab.runPod("job1", ["10.1.3.1"], job);
    await assertClients(kernel, ["10.1.3.1"]);
    await lab.setStatus("job1", ["10.1.3.1"], { phase: "Succeeded" });
    await assertClients(kernel, []);
    await lab.runPod("next1", ["10.1.3.1"], job);
    await assertClients(kernel, ["10.1.3.1"]);
    const calls = kernel.calls.length;
    await lab.deletePod("job1");
    await lab.runPod("marker1", ["10.1.3.9"], job);
    await assertClients(kernel, ["10.1.3.1", "10.1.3.9"]);
    assert.deepEqual(kernel.calls.slice(calls), ["add 1 remove 0"]);
  });

  await t.step("CT-34: taken over before the Job's end is known", async () => {
    await lab.runPod("job2", ["10.1.3.2"], job);
    await assertClients(kernel, ["10.1.3.1", "10.1.3.2", "10.1.3.9"]);
    const calls = kernel.calls.length;
    await lab.runPod("next2", ["10.1.3.2"], job);
    await eventually("the count", async () => {
      const [line] = await gateway.metrics("coil_egress_shared_addresses");
      return line === "coil_egress_shared_addresses 1";
    });
    assert.ok(
      gateway.logs.some((line) =>
        line.includes("Several live pods have one address") &&
        line.includes("team/job2") && line.includes("team/next2")
      ),
      gateway.logs.join("\n"),
    );
    await lab.setStatus("job2", ["10.1.3.2"], { phase: "Failed" });
    await lab.deletePod("job2");
    await lab.deletePod("marker1");
    await assertClients(kernel, ["10.1.3.1", "10.1.3.2"]);
    assert.deepEqual(kernel.calls.slice(calls), ["add 0 remove 1"]);
  });

  await t.step("W35: one of two gets another address", async () => {
    await lab.runPod("twin", ["10.1.3.1"], job);
    await lab.setStatus("twin", ["10.1.3.3"]);
    await assertClients(kernel, ["10.1.3.1", "10.1.3.2", "10.1.3.3"]);
    await lab.deletePod("next1");
    await assertClients(kernel, ["10.1.3.2", "10.1.3.3"]);
  });
});

Deno.test("coil-egress tries again what the kernel refuses, and is ready only then", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  await lab.runPod("a", ["10.1.4.1"], { annotations: CLIENT });
  const kernel = new ClientsKernel();
  kernel.failures = 2;
  await using gateway = await lab.startGateway({ kernel });
  await untilReady(gateway);
  assert.deepEqual(kernel.calls, ["set 1", "set 1", "set 1"]);
  kernel.failures = 1;
  await lab.runPod("b", ["10.1.4.2"], { annotations: CLIENT });
  await assertClients(kernel, ["10.1.4.1", "10.1.4.2"]);
  assert.equal((await gateway.ready()).status, 200);
  assert.deepEqual(kernel.calls.slice(3), ["add 1 remove 0", "set 2"]);
  const [syncs] = await gateway.metrics(
    'coil_egress_client_syncs_total{result="error"}',
  );
  assert.match(syncs ?? "", / 3$/);
});

Deno.test("coil-egress takes the kernel's clients over from its predecessor, without those that are gone", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  await lab.createPod("internet-0", { namespace: "nat" });
  _pods.defer(() => lab.deletePod("internet-0", { namespace: "nat" }));
  await lab.runPod("stays", ["10.1.5.1"], { annotations: CLIENT });
  await lab.runPod("goes", ["10.1.5.2"], { annotations: CLIENT });
  const kernel = new ClientsKernel();
  {
    await using gateway = await lab.startGateway({ kernel });
    await untilReady(gateway);
  }
  assert.deepEqual([...kernel.clients].sort(), ["10.1.5.1", "10.1.5.2"]);
  await lab.deletePod("goes");
  await lab.runPod("comes", ["10.1.5.3"], { annotations: CLIENT });
  await using gateway = await lab.startGateway({ kernel });
  await untilReady(gateway);
  await assertClients(kernel, ["10.1.5.1", "10.1.5.3"]);
});

Deno.test("coil-egress leaves the kernel as it is until it can list its clients, and is not ready before", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  await lab.runPod("new", ["10.1.7.2"], { annotations: CLIENT });
  const gate = await GatedTransport.open(lab.kubeconfig);
  using client = new KubeClient(gate);
  gate.isOpen = false;
  const kernel = new ClientsKernel();
  kernel.clients.add("10.1.7.1");
  await using gateway = await lab.startGateway({ client, kernel });
  await eventually(
    "a warning",
    () => gateway.logs.some((line) => line.includes("Informer cannot follow")),
  );
  assert.equal((await gateway.ready()).status, 500);
  assert.deepEqual(kernel.calls, []);
  assert.deepEqual([...kernel.clients], ["10.1.7.1"]);
  gate.isOpen = true;
  await untilReady(gateway);
  assert.deepEqual(kernel.calls, ["set 1"]);
  assert.deepEqual([...kernel.clients], ["10.1.7.2"]);
});

Deno.test({
  name:
    "coil-egress serves its clients while the API server is away, and catches up",
  ...RESTARTS,
}, async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(removePods);
  const gate = await GatedTransport.open(lab.kubeconfig);
  using client = new KubeClient(gate);
  await lab.runPod("stays", ["10.1.6.1"], { annotations: CLIENT });
  await lab.runPod("goes", ["10.1.6.2"], { annotations: CLIENT });
  await using gateway = await lab.startGateway({
    client,
    args: ["--drain-timeout=1s"],
  });
  await untilReady(gateway);
  gate.isOpen = false;
  await lab.plane.killApiServer();
  assert.equal((await gateway.ready()).status, 200);
  await lab.plane.startApiServer();
  await lab.deletePod("goes");
  await lab.runPod("comes", ["10.1.6.3"], { annotations: CLIENT });
  assert.deepEqual([...gateway.kernel.clients].sort(), [
    "10.1.6.1",
    "10.1.6.2",
  ]);
  gate.isOpen = true;
  await assertClients(gateway.kernel, ["10.1.6.1", "10.1.6.3"]);
});
