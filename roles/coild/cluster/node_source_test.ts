import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { NotReadyError } from "../base/errors.ts";
import { NodeSource, parseNode, schedulingOf } from "./node_source.ts";

function node(addresses: { type: string; address: string }[]) {
  return { metadata: { name: "n", uid: "u" }, status: { addresses } };
}

Deno.test("parseNode() takes the last InternalIP of each family", () => {
  const { addresses } = parseNode(node([
    { type: "InternalIP", address: "10.0.0.1" },
    { type: "ExternalIP", address: "192.0.2.1" },
    { type: "InternalIP", address: "fd00::1" },
    { type: "InternalIP", address: "10.0.0.2" },
    { type: "Hostname", address: "n" },
  ]));
  assert.equal(addresses.ipv4?.toString(), "10.0.0.2");
  assert.equal(addresses.ipv6?.toString(), "fd00::1");
});

for (const family of ["ipv4", "ipv6"] as const) {
  Deno.test(`NI-9: parseNode() leaves the family out that a node with only ${family} lacks`, () => {
    const address = family === "ipv4" ? "10.0.0.1" : "fd00::1";
    const { addresses } = parseNode(node([{ type: "InternalIP", address }]));
    assert.deepEqual(Object.keys(addresses), [family]);
  });
}

Deno.test("parseNode() lives with what is no address", () => {
  const { addresses } = parseNode(node([{ type: "InternalIP", address: "x" }]));
  assert.deepEqual(addresses, {});
});

Deno.test("NodeSource has its Node as it is, the addresses as they were last seen, and asks where it knows none", async () => {
  const api = new MemoryApi();
  const source = new NodeSource(new KubeClient(api), "n");
  const { signal } = new AbortController();
  await assert.rejects(source.get({ signal }), NotReadyError);
  const made = node([{ type: "InternalIP", address: "10.0.0.1" }]);
  api.put("nodes", made);
  assert.equal((await source.get({ signal })).uid, "u");
  await using group = new TaskGroup();
  let changes = 0;
  using _listener = source.subscribe(() => void changes++);
  assert.equal(source.seenDeleted, false, "none was seen");
  group.run("node", (s) => source.run(s));
  await source.synced;
  assert.equal(source.seenDeleted, false, "it is there");
  const { request } = api;
  api.request = () => assert.fail("Asked although it is in the cache");
  assert.equal((await source.get({ signal })).uid, "u");
  api.request = request;
  const before = changes;
  api.remove("nodes//n");
  await untilPasses(() => assert.equal(source.seenDeleted, true));
  assert.ok(changes > before);
  assert.equal(source.current, undefined);
  assert.equal(`${source.addresses.ipv4}`, "10.0.0.1");
});

Deno.test("NodeSource sees its Node cordoned, and how many pods it runs", async () => {
  const api = new MemoryApi();
  const source = new NodeSource(new KubeClient(api), "n");
  assert.equal(source.scheduling, undefined);
  const status = { capacity: { cpu: "2", pods: "29" } };
  api.put("nodes", { metadata: { name: "n", uid: "u" }, status });
  await using group = new TaskGroup();
  group.run("node", (s) => source.run(s));
  await source.synced;
  assert.deepEqual(source.scheduling, { isCordoned: false, maxPods: 29 });
  api.put("nodes", {
    metadata: { name: "n", uid: "u" },
    spec: { unschedulable: true },
    status,
  });
  await untilPasses(() => assert.ok(source.scheduling?.isCordoned));
});

Deno.test("schedulingOf() says whether the node is cordoned, and how many pods it runs", () => {
  const of = (unschedulable: boolean | undefined, pods?: string) =>
    schedulingOf({
      spec: unschedulable === undefined ? {} : { unschedulable },
      status: pods === undefined ? {} : { capacity: { pods } },
    });
  assert.deepEqual(of(true, "29"), { isCordoned: true, maxPods: 29 });
  assert.deepEqual(of(undefined), { isCordoned: false, maxPods: undefined });
  for (const pods of ["0", "1k", "", "-3", "12345678"]) {
    assert.equal(of(false, pods).maxPods, undefined, pods);
  }
});
