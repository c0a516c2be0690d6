// The overlay compat on a real cluster: everything by the names and paths of
// Coil v2. Tunnels are left out, as a kernel may not have Foo-over-UDP: the
// suite vm has them.
import assert from "node:assert/strict";
import { EGRESSES } from "../../lib/api/mod.ts";
import { hostPort } from "../../lib/inet/mod.ts";
import { DEPLOYMENTS } from "../../lib/kube/mod.ts";
import { assertAddresses } from "./addresses.ts";
import { assertAgreement } from "./agreement.ts";
import { networkConfiguration } from "./cri.ts";
import { createEgress } from "./gateways.ts";
import { assertHealthy } from "./healthy.ts";
import { Installation, POOL } from "./installation.ts";
import { assertReaches } from "./reach.ts";
import { accountOf, assertNothingRefused, coilRequests } from "./requests.ts";

const SOCKET = "/run/coild.sock";
const NAMESPACE = "kube-system";
/** Of workloads, and of their service accounts. */
const PROGRAMS = ["coil-egress-controller", "coil-ipam-controller", "coild"];

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "e2ecompat",
    nodes: 2,
    by: "overlay compat",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

Deno.test("compat: every program runs on every node, by upstream's name", async () => {
  const pods = await site.pods.list({
    namespace: NAMESPACE,
    labelSelector: "app.kubernetes.io/name=coil",
  });
  const found = pods.map(({ metadata, spec, status }) => {
    assert.equal(status?.phase, "Running", `${metadata?.name}`);
    const [container] = spec?.containers ?? [];
    return `${container?.name} as ${spec?.serviceAccountName} on ${spec?.nodeName}`;
  });
  const wanted = PROGRAMS.flatMap((name) =>
    site.nodes.map((node) => `${name} as ${name} on ${node.name}`)
  );
  assert.deepEqual(found.sort(), wanted.sort());
});

Deno.test("compat: plugin and daemon meet at upstream's socket", async () => {
  for (const node of site.nodes) {
    const { isSocket } = await Deno.stat(node.file(SOCKET));
    assert.ok(isSocket, node.name);
    const read = await networkConfiguration(node);
    assert.ok(read.includes(SOCKET), `${node.name}: ${read}`);
  }
});

Deno.test("compat: pods have addresses of the pool, and those of two nodes reach each other", async () => {
  const [near, far] = await Promise.all([
    site.pods.run({ name: "near", node: "node1" }),
    site.pods.run({ name: "far", node: "node2" }),
  ]);
  assertAddresses([near, far], [POOL.ipv4, POOL.ipv6]);
  await assertReaches(site, { from: near, to: far });
  await assertReaches(site, { from: far, to: near });
  await assertAgreement(site);
  await site.pods.remove(near, far);
  await assertAgreement(site);
});

Deno.test("compat: coil status knows the controller by upstream's names", async () => {
  await assertHealthy(site);
});

Deno.test("compat: an Egress gets its Deployment and gateway", async () => {
  const egress = { name: "out", namespace: "default" };
  await createEgress(site, { ...egress, replicas: 1 });
  const { metadata } = await site.client.get(DEPLOYMENTS, egress);
  assert.deepEqual(
    metadata?.ownerReferences?.map(({ kind, name }) => `${kind} ${name}`),
    ["Egress out"],
  );
  await site.client.delete(EGRESSES, egress);
});

Deno.test("compat: metrics are served at upstream's ports, E2E-6", async () => {
  for (const port of [9384, 9386, 9396]) {
    for (const { name, addresses } of site.nodes) {
      const host = hostPort(addresses[0] ?? "", port);
      const response = await fetch(`http://${host}/metrics`);
      const text = await response.text();
      assert.match(text, /^# TYPE rest_client_requests_total counter$/m, name);
    }
  }
});

Deno.test("compat: runtimes' calls come by the front, and coild answers them", async () => {
  for (const { addresses } of site.nodes) {
    const host = hostPort(addresses[0] ?? "", 9384);
    const response = await fetch(`http://${host}/metrics`);
    const results = [...(await response.text()).matchAll(
      /^coil_coild_launcher_calls_total\{result="(.*)"\}/gm,
    )].map(([, result]) => result);
    assert.deepEqual(results, ["answered"]);
  }
});

Deno.test("compat: each half of the controller keeps the lease that is its own", async () => {
  const requests = await coilRequests(site);
  const kept = requests
    .filter(({ resource, verb, code }) =>
      resource === "leases" && verb === "update" && code === 200
    )
    .map((request) => `${accountOf(request)} keeps ${request.name}`);
  assert.deepEqual([...new Set(kept)].sort(), [
    "coil-egress-controller keeps coil-egress-leader",
    "coil-ipam-controller keeps coil-ipam-leader",
  ]);
});

Deno.test("compat: nothing that Coil asked the API server for was forbidden", async () => {
  await assertNothingRefused(site, PROGRAMS);
});
