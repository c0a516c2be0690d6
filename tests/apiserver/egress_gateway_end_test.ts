import assert from "node:assert/strict";
import { postAnnouncement } from "./announcing.ts";
import { Address, valuesOf } from "../../lib/inet/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import {
  ADDRESSES,
  assertClients,
  CLIENT,
  EgressLab,
  NAMESPACE,
  type Right,
  untilReady,
} from "./egress_gateway_lab.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egressend");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

const pod = "internet-0";
const namespace = NAMESPACE;
const STATUS_RIGHT: Right = [
  "patch",
  "egresses/status",
  "coil.cybozu.com",
  namespace,
];

/** Whether a promise has settled. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  const outcome = await Promise.race([promise, sleep(0).then(() => pending)]);
  return outcome !== pending;
}

Deno.test("coil-egress drains when its pod is deleted: ready, for old flows alone", async (t) => {
  await lab.createPod(pod, { namespace });
  await lab.runPod("old", ["10.1.1.1"], { annotations: CLIENT });
  await using gateway = await lab.startGateway({ statusIntervalMs: 100 });
  const { kernel } = gateway;
  await untilReady(gateway);
  kernel.flows = 3;
  await lab.deletePod(pod, { namespace, graceSeconds: 300 });
  const ending = gateway.stop();

  await t.step("says so in the status", async () => {
    await eventually("the status", async () => {
      const [entry] = await lab.gateways();
      return entry?.draining === true;
    });
    await eventually("the flows in metric and log", async () => {
      const [line] = await gateway.metrics("coil_egress_draining_flows");
      assert.match(line ?? "", / 3$/);
      assert.match(gateway.logs.join("\n"), /Flows remain.*"flows":3/);
      return true;
    });
  });

  await t.step("stays ready, and takes no new client", async () => {
    assert.equal((await gateway.ready()).status, 200);
    const uid = await lab.createPod("new", { annotations: CLIENT });
    const response = await postAnnouncement(gateway.announceUrl, {
      token: await lab.token(),
      name: "new",
      uid,
      address: "10.1.1.9",
    });
    assert.equal(response.status, 503);
    assert.match(await response.text(), /is stopping/);
    assert.equal(kernel.clients.has("10.1.1.9"), false);
    await lab.deletePod("new");
    assert.equal(await isSettled(ending), false);
  });

  await t.step("still follows the clients it has", async () => {
    await lab.setStatus("old", ["10.1.1.2"]);
    await assertClients(kernel, ["10.1.1.2"]);
  });

  await t.step(
    "ends with the last flow, with the kernel as it is",
    async () => {
      kernel.flows = 0;
      await ending;
      assert.deepEqual([...kernel.clients], ["10.1.1.2"]);
      const [entry] = await lab.gateways();
      assert.equal(entry?.draining, true);
    },
  );
  await lab.deletePod(pod, { namespace });
  await lab.deletePod("old");
});

Deno.test("coil-egress ends with the drain's time although flows remain", async () => {
  await lab.createPod(pod, { namespace });
  await using gateway = await lab.startGateway({
    args: ["--drain-timeout=1s"],
  });
  await untilReady(gateway);
  gateway.kernel.flows = 7;
  await lab.deletePod(pod, { namespace, graceSeconds: 300 });
  await gateway.stop();
  assert.match(gateway.logs.join("\n"), /Stopping although flows may remain/);
  await lab.deletePod(pod, { namespace });
});

Deno.test("coil-egress ends at once when its pod stays, with the kernel as it is", async () => {
  await lab.createPod(pod, { namespace });
  await lab.runPod("client", ["10.1.2.1"], { annotations: CLIENT });
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  await untilReady(gateway);
  kernel.flows = 1_000;
  await gateway.stop();
  assert.deepEqual([...kernel.clients], ["10.1.2.1"]);
  const logs = gateway.logs.join("\n");
  assert.match(logs, /The pod is not being deleted/);
  // Neither of the drain's ends was waited for.
  assert.doesNotMatch(logs, /Drained|Stopping although/);
  await lab.deletePod("client");
  await lab.deletePod(pod, { namespace });
});

Deno.test("each gateway keeps its own entry in the Egress' status", async (t) => {
  await lab.createPod("internet-1", { namespace });
  await lab.createPod("internet-2", { namespace });
  await using one = await lab.startGateway({
    pod: "internet-1",
    statusIntervalMs: 100,
  });
  await using two = await lab.startGateway({
    pod: "internet-2",
    statusIntervalMs: 100,
  });
  await untilReady(one);
  await untilReady(two);
  const entryOf = async (name: string) =>
    (await lab.gateways()).find((entry) => entry.name === name);

  await t.step("both are there", async () => {
    await lab.runPod("client", ["10.1.3.1"], { annotations: CLIENT });
    for (const name of ["internet-1", "internet-2"]) {
      const addresses = valuesOf(ADDRESSES).map(String);
      // The first one may be without what has yet to be read of the kernel.
      await eventually(`the entry of ${name}`, async () => {
        const { since = "", ...entry } = await entryOf(name) ?? {};
        assert.ok(!Number.isNaN(Date.parse(since)), since);
        assert.deepEqual(entry, {
          name,
          addresses,
          draining: false,
          probingNodes: 3,
        });
        return true;
      });
    }
  });

  await t.step("a client that has its share is named", async () => {
    one.kernel.limited = [Address.parse("10.1.3.1")];
    await eventually("the metric", async () => {
      const lines = await one.metrics("coil_egress_client_limited");
      return lines.some((line) => line.includes('client="team/client"'));
    });
    // Told with the next reading, at the latest after fifteen seconds.
    await eventually("the name in the entry", async () => {
      const { limitedClients = [] } = await entryOf("internet-1") ?? {};
      return limitedClients.join() === "team/client";
    });
    await eventually(
      "its name in the log",
      () =>
        // Those of the process go where the last gateway was told to.
        two.logs.some((line) =>
          line.includes("A client has reached its connection limit") &&
          line.includes("team/client")
        ),
    );
    assert.equal((await entryOf("internet-2"))?.limitedClients, undefined);
  });

  await t.step("a status that cannot be written costs nothing", async () => {
    const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}` +
      "/rolebindings/coil-egress";
    const binding = await lab.plane.request("GET", path) as {
      metadata: Record<string, unknown>;
    };
    await lab.plane.request("DELETE", path);
    await eventually(
      "the right to be gone",
      async () => !await lab.isAllowed(STATUS_RIGHT),
    );
    one.kernel.limited = [];
    await lab.runPod("client2", ["10.1.3.2"], { annotations: CLIENT });
    await assertClients(one.kernel, ["10.1.3.1", "10.1.3.2"]);
    await eventually(
      "a warning",
      () =>
        one.logs.concat(two.logs).some((line) =>
          line.includes("Cannot write the gateway's status")
        ),
    );
    assert.equal((await one.ready()).status, 200);
    const { limitedClients = [] } = await entryOf("internet-1") ?? {};
    assert.deepEqual(limitedClients, ["team/client"]);
    const { name } = binding.metadata;
    await lab.plane.apply({ ...binding, metadata: { name, namespace } });
    await eventually("the entry", async () => {
      const { limitedClients = [] } = await entryOf("internet-1") ?? {};
      return limitedClients.length === 0;
    });
  });
});
