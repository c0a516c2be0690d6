import assert from "node:assert/strict";
import { postAnnouncement } from "./announcing.ts";
import { eventually } from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";
import { ClientsKernel } from "./clients_kernel.ts";
import {
  assertClients,
  CLIENT,
  EGRESS,
  EGRESS_KEY,
  EGRESS_OBJECT,
  EgressLab,
  NAMESPACE,
  type RunningGateway,
  SLICES_PATH,
  untilReady,
} from "./egress_gateway_lab.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egressslices");
  await lab.createPod("coild-node1", {
    namespace: "kube-system",
    serviceAccount: "coild",
  });
  await lab.createBlock("default-1", "node1");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

async function patchSlice(name: string, patch: unknown): Promise<void> {
  await lab.plane.request("PATCH", `${SLICES_PATH}/${name}`, patch, {
    contentType: "application/merge-patch+json",
  });
}

async function announce(
  gateway: RunningGateway,
  pod: { readonly name: string; readonly uid: string },
  address: string,
): Promise<number> {
  const token = await lab.token({ pod: "coild-node1" });
  const client = { token, ...pod, address, block: "default-1" };
  const response = await postAnnouncement(gateway.announceUrl, client);
  await response.body?.cancel();
  return response.status;
}

Deno.test("coil-controller writes the clients of an Egress into slices of a hundred", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  const uid = await lab.createPod("pod-000", { annotations: CLIENT });
  await lab.setStatus("pod-000", ["10.1.0.1", "fd01::1"]);
  await lab.createPod("stranger");
  await using _controller = await lab.controller.use(EGRESS_KEY);

  await t.step("with what a gateway has to know", async () => {
    const [slice, ...more] = await lab.slices();
    assert.deepEqual(more, []);
    assert.equal(slice?.metadata.name, "internet-0");
    assert.deepEqual(slice.metadata.labels, {
      "app.kubernetes.io/component": "egress",
      "app.kubernetes.io/instance": EGRESS,
      "app.kubernetes.io/name": "coil",
    });
    const [owner] = slice.metadata.ownerReferences ?? [];
    assert.equal(`${owner?.kind} ${owner?.name}`, `Egress ${EGRESS}`);
    assert.deepEqual(slice.clients, [{
      namespace: "team",
      name: "pod-000",
      uid,
      nodeName: "node1",
      addresses: ["10.1.0.1", "fd01::1"],
    }]);
  });

  const names = Array.from(
    { length: 250 },
    (_, n) => `pod-${String(n).padStart(3, "0")}`,
  );
  await t.step("several, when they are many", async () => {
    await Promise.all(
      names.slice(1).map((name) =>
        lab.createPod(name, { annotations: CLIENT })
      ),
    );
    await eventually(
      "all",
      async () => (await lab.clientNames()).length === 250,
    );
    assert.deepEqual(await lab.clientNames(), names);
    const counts = (await lab.slices()).map(({ clients = [] }) =>
      clients.length
    );
    assert.ok(counts.every((count) => count <= 100), counts.join());
    assert.ok(counts.length <= 6, counts.join());
  });

  await t.step("with one write for one change", async () => {
    const before = new Map(
      (await lab.slices()).map(({ metadata }) => [
        metadata.name,
        metadata.resourceVersion,
      ]),
    );
    await lab.setStatus("pod-007", ["10.1.0.7"]);
    const find = async () => {
      const all = (await lab.slices()).flatMap(({ clients = [] }) => clients);
      return all.find(({ name }) => name === "pod-007");
    };
    await eventually("the address", async () => {
      return (await find())?.addresses?.join() === "10.1.0.7";
    });
    const changed = (await lab.slices()).filter(({ metadata }) =>
      before.get(metadata.name) !== metadata.resourceVersion
    );
    assert.equal(changed.length, 1);
  });

  await t.step("and an empty one when nobody is left", async () => {
    await lab.removePods();
    await eventually("one empty slice", async () => {
      const all = await lab.slices();
      return all.length === 1 && (all[0]?.clients ?? []).length === 0;
    });
  });
});

Deno.test("coil-controller puts slices right that others change, and no client is interrupted", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await lab.runPod("a", ["10.1.1.1"], { annotations: CLIENT });
  await lab.runPod("b", ["10.1.1.2"], { annotations: CLIENT });
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  await untilReady(gateway);
  await assertClients(kernel, ["10.1.1.1", "10.1.1.2"]);
  const names = async () => (await lab.clientNames()).join();

  await t.step("one that is deleted", async () => {
    const calls = kernel.calls.length;
    const [before] = await lab.slices();
    await lab.plane.request("DELETE", `${SLICES_PATH}/internet-0`);
    await eventually("the slice", async () => {
      const [after] = await lab.slices();
      return after !== undefined && after.metadata.uid !== before?.metadata.uid;
    });
    assert.equal(await names(), "a,b");
    await lab.runPod("c", ["10.1.1.3"], { annotations: CLIENT });
    await assertClients(kernel, ["10.1.1.1", "10.1.1.2", "10.1.1.3"]);
    assert.deepEqual(kernel.calls.slice(calls), ["add 1 remove 0"]);
  });

  await t.step("one whose clients were changed", async () => {
    await patchSlice("internet-0", {
      clients: [{
        namespace: "team",
        name: "forged",
        uid: "0-0",
        nodeName: "node1",
        addresses: ["10.66.6.6"],
      }],
    });
    await eventually("the clients", async () => await names() === "a,b,c");
    // The gateway has seen both changes of the slice when it has seen a later one.
    await lab.runPod("later", ["10.1.1.9"], { annotations: CLIENT });
    await eventually("a later client", () => kernel.clients.has("10.1.1.9"));
    await lab.deletePod("later");
    await assertClients(kernel, ["10.1.1.1", "10.1.1.2", "10.1.1.3"]);
  });

  await t.step("one that lost its label", async () => {
    const calls = kernel.calls.length;
    await patchSlice("internet-0", { metadata: { labels: null } });
    await eventually("the label", async () => {
      const [slice] = await lab.slices();
      return slice?.metadata.labels?.["app.kubernetes.io/instance"] === EGRESS;
    });
    await lab.deletePod("c");
    await assertClients(kernel, ["10.1.1.1", "10.1.1.2"]);
    assert.deepEqual(kernel.calls.slice(calls), ["add 0 remove 1"]);
  });

  await t.step("one that is nobody's", async () => {
    await lab.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "EgressClientSlice",
      metadata: {
        namespace: NAMESPACE,
        name: "forged",
        labels: { "app.kubernetes.io/instance": EGRESS },
      },
      clients: [{
        namespace: "team",
        name: "x",
        uid: "0-1",
        nodeName: "node1",
        addresses: ["10.66.6.7"],
      }],
    });
    await eventually("its end", async () => {
      return (await lab.slices()).every((s) => s.metadata.name !== "forged");
    });
    // A gateway cannot tell who deleted it, and waits for its return.
    assert.equal(await names(), "a,b");
  });

  await t.step(
    "one that another's finalizer keeps, which nothing waits for",
    async () => {
      await lab.plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "EgressClientSlice",
        metadata: {
          namespace: NAMESPACE,
          name: "kept",
          labels: { "app.kubernetes.io/instance": EGRESS },
          finalizers: ["example.com/kept"],
        },
      });
      for (const name of ["d", "e", "f"]) {
        await lab.createPod(name, { annotations: CLIENT });
        await eventually("the client", async () => {
          return (await lab.clientNames()).includes(name);
        });
      }
      const deletions = await lab.plane.auditRequests({
        resource: "egressclientslices",
        verb: "delete",
        user: "system:serviceaccount:kube-system:coil-controller",
      });
      const ofKept = deletions.filter(({ uri }) => uri.includes("/kept"));
      assert.equal(ofKept.length, 1);
      await patchSlice("kept", { metadata: { finalizers: null } });
    },
  );
});

Deno.test("a gateway keeps its clients while its Egress is deleted and made again", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  _pods.defer(() => lab.plane.apply(EGRESS_OBJECT));
  const addresses = ["10.1.6.1", "10.1.6.2"];
  await lab.runPod("a", ["10.1.6.1"], { annotations: CLIENT });
  await lab.runPod("b", ["10.1.6.2"], { annotations: CLIENT });
  // For half a minute it waits for slices that went.
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  await untilReady(gateway);
  await assertClients(kernel, addresses);
  const calls = kernel.calls.length;
  const egress = `${COIL_API}/namespaces/${NAMESPACE}/egresses/${EGRESS}`;
  const remake = async () => {
    await lab.plane.apply(EGRESS_OBJECT);
    const { metadata } = await lab.plane.request("GET", egress) as {
      metadata: { uid: string };
    };
    await eventually("its slice", async () => {
      const [slice] = await lab.slices();
      return slice?.metadata.ownerReferences?.[0]?.uid === metadata.uid;
    });
    assert.equal(await lab.clientNames().then((names) => names.join()), "a,b");
  };
  /** What Kubernetes' garbage collector does, which does not run here: the controller may write once more before it knows that the Egress is gone. */
  const collect = async () => {
    await lab.controller.untilGone(EGRESS_KEY);
    await lab.plane.request("DELETE", SLICES_PATH);
  };

  await t.step("before its slices go, which the new one owns", async () => {
    await lab.plane.request("DELETE", egress);
    await remake();
    assert.deepEqual(kernel.calls.slice(calls), []);
  });

  await t.step("after its slices went", async () => {
    await lab.plane.request("DELETE", egress);
    await collect();
    await remake();
    assert.deepEqual(kernel.calls.slice(calls), []);
  });

  await t.step("and not for ever, when it is gone for good", async () => {
    await lab.plane.request("DELETE", egress);
    await collect();
    assert.deepEqual([...kernel.clients].sort(), addresses);
    await assertClients(kernel, []);
    assert.deepEqual(kernel.calls.slice(calls), ["add 0 remove 2"]);
    assert.equal((await gateway.ready()).status, 200);
    assert.deepEqual(await lab.slices(), []);
  });
});

Deno.test("a gateway whose coil-controller is of a version without slices leaves the kernel as its predecessor had it", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  const numbers = Array.from({ length: 150 }, (_, n) => n);
  await Promise.all(
    numbers.map((n) =>
      lab.runPod(`pod-${n}`, [`10.1.7.${n}`], { annotations: CLIENT })
    ),
  );
  await lab.plane.request("DELETE", SLICES_PATH);
  const kernel = new ClientsKernel();
  const addresses = numbers.map((n) => `10.1.7.${n}`);
  for (const address of addresses) kernel.clients.add(address);
  await using gateway = await lab.startGateway({ kernel, isAlone: true });
  const untold = /Waiting for the EgressClientSlices of the Egress/;

  await t.step("it is not ready, and says what it waits for", async () => {
    await eventually(
      "the record",
      () => gateway.logs.some((line) => untold.test(line)),
    );
    assert.equal((await gateway.ready()).status, 500);
    assert.deepEqual(kernel.calls, []);
    const pod = { name: "pod-0", uid: crypto.randomUUID() };
    assert.equal(await announce(gateway, pod, "10.1.7.0"), 503);
  });

  await t.step(
    "and begins with all clients when they are written",
    async () => {
      await using _controller = await lab.controller.use(EGRESS_KEY);
      await untilReady(gateway);
      assert.deepEqual(kernel.calls, ["set 150"]);
      assert.deepEqual([...kernel.removed], []);
      assert.deepEqual([...kernel.clients].sort(), addresses.sort());
    },
  );
});

Deno.test("a gateway of an Egress without clients is ready by its empty slice", async () => {
  await lab.plane.request("DELETE", SLICES_PATH);
  await using gateway = await lab.startGateway();
  await untilReady(gateway);
  assert.deepEqual(gateway.kernel.calls, ["set 0"]);
});

Deno.test("announcements carry while coil-controller is away, and slices catch up", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await lab.runPod("old", ["10.1.2.1"], { annotations: CLIENT });
  await using gateway = await lab.startGateway({ confirmMs: 300 });
  const { kernel } = gateway;
  await untilReady(gateway);
  await lab.controller.stop();
  const uid = await lab.createPod("new", { annotations: CLIENT });

  await t.step("a new client is served", async () => {
    const status = await announce(gateway, { name: "new", uid }, "10.1.2.2");
    assert.equal(status, 204);
    await assertClients(kernel, ["10.1.2.1", "10.1.2.2"]);
  });

  await t.step("for as long as nobody can confirm it", async () => {
    const asked = async () => {
      const gets = await lab.plane.auditRequests({
        resource: "leases",
        verb: "get",
        user: `system:serviceaccount:${NAMESPACE}:coil-egress`,
      });
      return gets.length;
    };
    const before = await asked();
    await eventually("its time to be over", async () => {
      return await asked() > before;
    });
    assert.deepEqual([...kernel.clients].sort(), ["10.1.2.1", "10.1.2.2"]);
  });

  await t.step("not with an address that is not the node's", async () => {
    const status = await announce(gateway, { name: "new", uid }, "10.9.2.2");
    assert.equal(status, 403);
  });

  await t.step("and by its slice when the controller is back", async () => {
    await lab.setStatus("new", ["10.1.2.2"]);
    const gone = await lab.createPod("gone", { annotations: CLIENT });
    const status = await announce(
      gateway,
      { name: "gone", uid: gone },
      "10.1.2.3",
    );
    assert.equal(status, 204);
    await lab.deletePod("gone");
    await lab.controller.restart();
    await assertClients(kernel, ["10.1.2.1", "10.1.2.2"]);
    const announced = () => gateway.metrics("coil_egress_announced_clients ");
    await eventually("the confirmation", async () => {
      return (await announced())[0] === "coil_egress_announced_clients 0";
    });
  });
});
