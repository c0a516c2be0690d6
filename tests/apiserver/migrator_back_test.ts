// The way back of docs/migrate.md: v1 takes over again after v2 has started
// pods, and after some of v1's were replaced.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { ConnectivityProver } from "./migrator_probe.ts";
import { exportedBy, RouteReflector } from "./migrator_routes.ts";
import { installV1, MigrationLab, v1Objects } from "./migrator_testing.ts";

const POOLS = [{
  name: "default",
  bits: 3,
  subnets: ["10.64.0.0/24"],
  blocks: { node1: ["10.64.0.0/29"], node2: ["10.64.0.8/29"] },
}];
const OF_V2 = "!coil.cybozu.com/reserved";

Deno.test("migrate: the way back, with pods of v2 and a part of v1's replaced", async () => {
  await using lab = await MigrationLab.start({
    name: "migrate-back",
    nodes: 2,
    pools: POOLS,
  });
  const { plane, kubelet } = lab;
  await lab.lab.createNamespace("apps");
  await lab.lab.createNamespace("more");
  await installV1(plane);
  await lab.workload("Deployment", "apps/api", { replicas: 4 });
  await kubelet.settled(4);
  await using reflector = new RouteReflector(lab.lab);
  await reflector.settled();
  await using prover = new ConnectivityProver(lab.lab, kubelet);
  await lab.dumpAndInstall();
  await lab.workload("Deployment", "more/new", { replicas: 3 });
  await kubelet.settled(7);
  const part = await lab.migrate([
    ...["replace", "--yes", "--interval=0s", "--node=node1"],
  ]);
  assert.equal(part.code, 3, part.err);
  assert.match(part.err, /2 pods of v1 left, of other nodes or namespaces/);

  await plane.kubectl("delete", "addresspools", "--all", "--wait=false");
  await plane.kubectl(
    ...["delete", "addressblocks", "-l", OF_V2, "--wait=false"],
  );
  for (const { namespace, name, network } of kubelet.running) {
    if (network === "v1") continue;
    await plane.kubectl(
      ...["delete", "pod", "-n", namespace, name, "--wait=false"],
    );
  }
  await eventually("v2 to have nothing out", async () => {
    const text = await plane.kubectl(
      ...["get", "addressblocks", "-l", OF_V2, "-o", "name"],
    );
    return text.trim() === "";
  });
  // A block may go back before the kubelet has removed the pod's namespace.
  await eventually("v1's two pods alone", () => {
    const { running } = kubelet;
    return running.length === 2 &&
      running.every(({ network }) => network === "v1");
  });

  await lab.removeV2();
  for (const node of lab.lab.nodes) {
    const [own = ""] = POOLS[0]?.blocks[node.name as "node1" | "node2"] ?? [];
    assert.ok((await exportedBy(node)).includes(own), `${node.name}: ${own}`);
  }
  await installV1(plane);
  assert.equal((await v1Objects(plane)).length, 9);
  await kubelet.settled(7);
  assert.ok(kubelet.running.every(({ network }) => network === "v1"));
  await plane.kubectl("delete", "addressblocks", "--all");
  const { code, out } = await lab.migrate(["status"]);
  assert.equal(code, 0);
  assert.match(out, /Phase +v1 at work/);
  await reflector.settled();
  await prover.phase("v1 is back");
  assert.deepEqual(kubelet.violations, []);
  assert.deepEqual(prover.failures, []);
  assert.deepEqual(prover.losses, []);
});
