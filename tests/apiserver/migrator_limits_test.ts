// How many pods coil migrate replace replaces at a time: in all, of a node, of a namespace.
import assert from "node:assert/strict";
import { eventually, sleep } from "../lab/mod.ts";
import type { LabKubelet } from "./migrator_kubelet.ts";
import { installV1, MigrationLab } from "./migrator_testing.ts";

const POOLS = [
  {
    name: "default",
    bits: 4,
    subnets: ["10.64.0.0/24"],
    blocks: { node1: ["10.64.0.0/28"], node2: ["10.64.0.16/28"] },
  },
];
/** Each has two pods on each node, all of controllers of their own. */
const NAMESPACES = ["red", "green", "blue", "grey"] as const;
/** Much longer than the time between two evictions that are allowed together. */
const END_MS = 3_000;

/** The most pods that ended at the same time. */
interface Most {
  inAll: number;
  ofNode: number;
  ofNamespace: number;
}

/** Lets pods take their time to end, once so many do it at the same time, and counts. */
function watch(kubelet: LabKubelet, wanted: number): Most {
  const most = { inAll: 0, ofNode: 0, ofNamespace: 0 };
  const ending = new Set<
    { readonly namespace: string; readonly node: string }
  >();
  kubelet.beforeEnd = async ({ namespace, node: { name: node } }) => {
    const pod = { namespace, node };
    ending.add(pod);
    const all = [...ending];
    const count = (isAlike: (other: typeof pod) => boolean) =>
      all.filter(isAlike).length;
    most.inAll = Math.max(most.inAll, all.length);
    most.ofNode = Math.max(
      most.ofNode,
      count((other) => other.node === node),
    );
    most.ofNamespace = Math.max(
      most.ofNamespace,
      count((other) => other.namespace === namespace),
    );
    await eventually(`${wanted} to end`, () => most.inAll >= wanted);
    await sleep(END_MS);
    ending.delete(pod);
  };
  return most;
}

async function start(): Promise<MigrationLab> {
  const lab = await MigrationLab.start({
    name: "migrate-limits",
    nodes: 2,
    pools: POOLS,
  });
  for (const namespace of NAMESPACES) await lab.lab.createNamespace(namespace);
  await installV1(lab.plane);
  for (const namespace of NAMESPACES) {
    for (const node of ["node1", "node2"]) {
      for (const name of ["a", "b"]) {
        await lab.workload("Deployment", `${namespace}/${name}-${node}`, {
          replicas: 1,
          node,
        });
      }
    }
  }
  await lab.kubelet.settled(16);
  const dumped = await lab.migrate(["dump", "--yes"]);
  assert.equal(dumped.code, 0, dumped.err);
  await lab.applyManifest();
  await lab.installV2();
  return lab;
}

Deno.test("migrate replace: as many pods at a time as the flags allow, and no more", async (t) => {
  await using lab = await start();
  const replace = async (
    wanted: { readonly code: number; readonly inAll: number },
    ...args: readonly string[]
  ) => {
    const most = watch(lab.kubelet, wanted.inAll);
    const { code, err } = await lab.migrate([
      ...["replace", "--yes", "--interval=0s", "--parallel=4"],
      ...args,
    ]);
    assert.equal(code, wanted.code, err);
    assert.equal(most.inAll, wanted.inAll);
    return most;
  };

  await t.step("one of a namespace", async () => {
    const args = ["--namespace=red,green", "--max-per-node=4"];
    const { ofNamespace } = await replace({ code: 3, inAll: 2 }, ...args);
    assert.equal(ofNamespace, 1);
  });

  await t.step("one of a node", async () => {
    const args = ["--namespace=blue", "--max-per-namespace=4"];
    const { ofNode } = await replace({ code: 3, inAll: 2 }, ...args);
    assert.equal(ofNode, 1);
  });

  await t.step("four in all, the last", async () => {
    const args = ["--max-per-namespace=9", "--max-per-node=9"];
    await replace({ code: 0, inAll: 4 }, ...args);
    assert.deepEqual(lab.kubelet.violations, []);
  });
});
