// From Coil v1 to v2, from beginning to end: a real etcd, API server and
// controllers, nodes and pods as namespaces.
import assert from "node:assert/strict";
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import type { AddressBlock, AddressPool } from "../../lib/api/mod.ts";
import type { MigrationStatus } from "../../roles/coil_migrator/mod.ts";
import { Prefix } from "../../lib/inet/mod.ts";
import { RESERVED_LABEL } from "../../lib/names/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { eventually, inNetns, sleep } from "../lab/mod.ts";
import type { RunningPod } from "./migrator_kubelet.ts";
import { ConnectivityProver } from "./migrator_probe.ts";
import { exportedBy, RouteReflector } from "./migrator_routes.ts";
import { installV1, MigrationLab, v1Objects } from "./migrator_testing.ts";
import type { V1PoolSpec } from "./migrator_v1.ts";

/** Three pools of several subnets and block sizes; no node has all. */
const POOLS: readonly V1PoolSpec[] = [
  {
    name: "default",
    bits: 3,
    subnets: ["10.64.0.0/26", "10.64.9.0/26"],
    blocks: {
      node1: ["10.64.0.0/29", "10.64.9.8/29"],
      // v1 has blocks of other sizes where somebody changed a pool's.
      node2: ["10.64.0.16/29", "10.64.0.32/28", "10.64.9.20/30"],
      node3: ["10.64.9.0/29"],
    },
  },
  {
    name: "web",
    bits: 2,
    subnets: ["10.65.0.0/28", "10.65.7.0/28"],
    blocks: {
      node1: ["10.65.0.4/30"],
      node2: ["10.65.7.0/30"],
      node3: ["10.65.7.8/30"],
    },
  },
  {
    name: "single",
    bits: 0,
    subnets: ["10.66.0.0/28"],
    blocks: {
      node1: ["10.66.0.1/32"],
      node2: ["10.66.0.5/32", "10.66.0.7/32"],
      node3: ["10.66.0.9/32"],
    },
  },
];

/** How many pods are asked in each, and how many packets may be lost. */
const PHASES = [
  ["v1 at work", 16, 0],
  ["v1 is removed", 16, 0],
  ["the manifest is applied", 16, 0],
  ["v2 is started", 16, 0],
  ["v2 already assigns addresses", 25, 0],
  // 15 of them by others.
  ["pods are replaced", 40, 0],
  ["blocks are released, coild is restarted", 25, 0],
  ["the end", 25, 0],
];

async function list<T>(
  lab: MigrationLab,
  plural: string,
): Promise<readonly T[]> {
  const path =
    `/apis/${ADDRESS_BLOCKS.group}/${ADDRESS_BLOCKS.version}/${plural}`;
  return ((await lab.plane.request("GET", path)) as { items: T[] }).items;
}

function isReserved({ metadata }: AddressBlock): boolean {
  return metadata.labels?.[RESERVED_LABEL] === "true";
}

/** Names of the pods that have v1's network. */
function ofV1({ kubelet }: MigrationLab): string[] {
  return kubelet.running.filter(({ network }) => network === "v1")
    .map(({ name }) => name);
}

async function statusOf(lab: MigrationLab): Promise<MigrationStatus> {
  const { code, out, err } = await lab.migrate(["status", "-o", "json"]);
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

/** The arguments of the guide's `coil migrate` commands, and its other command. */
async function guide() {
  const blocks = await testedCommands("docs/migrate.md", import.meta.url);
  const [rollout = "", ...coil] = blocks.flat();
  const [status, dryRun, replace, ...more] = coil.map(argumentsOf);
  assert.ok(status && dryRun && replace);
  assert.deepEqual(more, []);
  // The role's page has the commands without their flags.
  const role = await testedCommands(
    "docs/roles/coil-migrator.md",
    import.meta.url,
  );
  assert.deepEqual(role.flat().map(argumentsOf), [["dump"], replace, status]);
  return { rollout, status, dryRun, replace };
}

function argumentsOf(command: string): string[] {
  const [coil, migrate, ...args] = command.split(" ");
  assert.deepEqual([coil, migrate], ["coil", "migrate"]);
  return args;
}

/** Takes a pod's route away for a moment, until the prover has noticed: else its silence would prove nothing. */
async function proveTheProver(
  prover: ConnectivityProver,
  { node, address }: RunningPod,
): Promise<void> {
  await prover.phase("before");
  await eventually("a loss to be counted", async () => {
    const route = (await node.run("ip", "route", "show", address)).trim();
    await node.run("ip", "route", "delete", ...route.split(" "));
    await sleep(1_000);
    await node.run("ip", "route", "add", ...route.split(" "));
    return (await prover.phase("a route is away")).lost > 0;
  });
  assert.deepEqual(prover.failures, []);
}

Deno.test("a cluster moves from v1 to v2, no pod loses its network before it is replaced, no address is given twice", async () => {
  await using lab = await MigrationLab.start({
    name: "migrate-e2e",
    nodes: 3,
    pools: POOLS,
  });
  const { kubelet, plane } = lab;
  const { rollout, status, dryRun, replace: replacing } = await guide();
  for (const name of ["apps", "web", "single"]) {
    await lab.lab.createNamespace(name);
  }
  assert.equal((await statusOf(lab)).phase, "nothing to migrate");
  await installV1(plane);
  await lab.workload("Deployment", "apps/api", { replicas: 5 });
  await lab.workload("StatefulSet", "apps/db", { replicas: 2 });
  await lab.workload("DaemonSet", "web/agent");
  await lab.workload("Deployment", "web/front", { replicas: 3 });
  await lab.workload("Deployment", "single/one", { replicas: 2 });
  await lab.pod("apps/lonely", { node: "node1" });
  await kubelet.settled(16);
  const before = kubelet.running;
  assert.equal((await statusOf(lab)).phase, "not begun");

  await using reflector = new RouteReflector(lab.lab);
  await reflector.settled();
  {
    await using trial = new ConnectivityProver(lab.lab, kubelet);
    const [first] = before;
    assert.ok(first);
    await proveTheProver(trial, first);
  }
  await using prover = new ConnectivityProver(lab.lab, kubelet);
  await prover.phase("v1 at work");

  const dumped = await lab.migrate(["dump", "--yes"]);
  assert.equal(dumped.code, 0, dumped.err);
  assert.deepEqual(await v1Objects(plane), []);
  assert.equal((await statusOf(lab)).phase, "dumped");
  await prover.phase("v1 is removed");
  await lab.applyManifest();
  const applied = await statusOf(lab);
  assert.equal(applied.phase, "waiting for v2");
  assert.deepEqual([applied.pools, applied.reservedBlocks], [3, 13]);
  assert.equal(applied.pods.toReplace, 15);
  assert.deepEqual(applied.pods.kept, { "apps/lonely": "no controller" });
  await prover.phase("the manifest is applied");
  await lab.installV2();
  const [kubectl, ...words] = rollout.split(" ");
  assert.equal(kubectl, "kubectl");
  assert.match(await plane.kubectl(...words), /successfully rolled out/);
  const waiting = await lab.migrate(status);
  assert.deepEqual([waiting.code, waiting.err], [0, ""]);
  assert.match(waiting.out, /replac/);
  await prover.phase("v2 is started");

  // Reserved blocks are exported, counted, and never given out.
  await lab.workload("Deployment", "apps/new", { replicas: 6 });
  await lab.workload("Deployment", "web/new", { replicas: 3 });
  await kubelet.settled(25);
  await prover.phase("v2 already assigns addresses");
  const reserved = (await list<AddressBlock>(lab, "addressblocks"))
    .filter(isReserved);
  for (const node of lab.lab.nodes) {
    const exported = await exportedBy(node);
    for (const { metadata, ipv4 = "" } of reserved) {
      if (metadata.labels?.["coil.cybozu.com/node"] !== node.name) continue;
      assert.ok(exported.includes(ipv4), `${node.name} exports ${exported}`);
    }
  }
  for (const theirs of await list<AddressBlock>(lab, "addressblocks")) {
    if (isReserved(theirs)) continue;
    for (const { ipv4 = "" } of reserved) {
      const prefix = Prefix.parse(ipv4);
      assert.ok(!prefix.overlaps(Prefix.parse(theirs.ipv4 ?? "")), ipv4);
    }
  }
  await eventually("reserved blocks in the pool's status", async () => {
    const pools = await list<AddressPool>(lab, "addresspools");
    const web = pools.find(({ metadata }) => metadata.name === "web");
    // Three reserved ones, and one for each node with a new pod.
    return web?.status?.blocks?.allocated === 6;
  });
  assert.equal((await statusOf(lab)).phase, "replacing pods");

  const planned = await lab.migrate(dryRun);
  assert.equal(planned.code, 0, planned.err);
  assert.equal(ofV1(lab).length, 16);
  const replace = [...replacing, "--yes", "--interval=0s", "--parallel=3"];
  const stop = new AbortController();
  const interrupted = lab.migrate(replace, {
    signal: stop.signal,
    onText: (text) => {
      if (/\[15\/15\] .*: replaced/.test(text)) {
        stop.abort(new Error("Ctrl-C"));
      }
    },
  });
  await assert.rejects(interrupted, /Ctrl-C/);
  assert.deepEqual(ofV1(lab), ["lonely"]);
  await prover.phase("pods are replaced");
  const released = await lab.migrate(replace);
  assert.equal(released.code, 3, released.err);
  assert.match(released.err, /Kept, with 1 reserved block/);
  const between = await statusOf(lab);
  assert.deepEqual([between.reservedBlocks, between.coild.old], [1, 0]);
  // coild has been restarted: it keeps what is reserved yet.
  const exported = await exportedBy(lab.lab.node(1));
  assert.ok(exported.includes("10.64.0.0/29"), exported.join());
  await prover.phase("blocks are released, coild is restarted");
  const forced = await lab.migrate([...replace, "--force"]);
  assert.equal(forced.code, 0, forced.err);
  assert.match(forced.err, /apps\/lonely on node node1: deleted/);

  const done = await statusOf(lab);
  assert.equal(done.phase, "done");
  assert.deepEqual([done.reservedBlocks, done.coild.old], [0, 0]);
  assert.deepEqual(kubelet.violations, []);
  await prover.phase("the end");
  assert.deepEqual(prover.failures, []);
  assert.deepEqual(prover.losses, []);
  assert.deepEqual(
    prover.phases.map(({ name, pods, lost }) => [name, pods, lost]),
    PHASES,
  );
  const after = kubelet.running;
  assert.equal(after.length, 24);
  assert.ok(after.every(({ network }) => network === "v2"));
  assert.equal(new Set(after.map(({ address }) => address)).size, 24);
  // What a pod of v1 had was given to nobody else while it had it, nor before its block was released.
  const v1Addresses = new Set(before.map(({ address }) => address));
  const twice = kubelet.given.filter(({ address, network }) =>
    network === "v2" && v1Addresses.has(address)
  );
  assert.deepEqual(twice, []);
  await reflector.settled();
  for (const { address } of after) {
    await inNetns(plane.netns, "ping", ["-nqc1", "-w20", address]);
  }
});
