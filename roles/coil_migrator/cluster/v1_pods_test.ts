import assert from "node:assert/strict";
import { type Block, poolOf } from "../../../lib/api/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { type LivePod, nextPod } from "../../../lib/eviction/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { findV1Pods } from "./v1_pods.ts";

/** `NAMESPACE/NAME NODE CONTROLLER ADDRESS…`; "-" for no controller, "static" for a static pod. */
function pod(line: string): LivePod {
  const [key = "", node = "", controller = "", ...addresses] = line.split(" ");
  const [namespace = "", name = ""] = key.split("/");
  return {
    namespace,
    name,
    node,
    uid: key,
    isReady: true,
    isDeleting: false,
    addresses: addresses.map(Address.parse),
    controller: controller === "-" ? undefined : {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      name: controller,
      uid: controller,
      controller: true,
    },
    isStatic: controller === "static",
  };
}

/** `NAME NODE PREFIX`; those that end in v1 are reserved. */
function block(line: string): Block {
  const [name = "", node = "", prefix = ""] = line.split(" ");
  return {
    name,
    node,
    uid: name,
    resourceVersion: "1",
    pool: "default",
    index: 0,
    deleting: false,
    finalized: false,
    prefixes: { ipv4: Prefix.parse(prefix) },
    reserved: name.endsWith("v1"),
  };
}

const pools = [
  poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { subnets: [{ ipv4: "10.1.0.0/24" }] },
  }),
];

function find(pods: readonly string[], blocks: readonly string[]) {
  const found = findV1Pods(pods.map(pod), {
    pools,
    blocks: blocks.map(block),
  });
  return {
    toReplace: found.toReplace.map(nameText),
    kept: found.kept.map((entry) => `${nameText(entry.pod)}: ${entry.why}`),
    inUse: [...found.inUse],
  };
}

Deno.test("findV1Pods() knows v1's pods by the blocks of their addresses", () => {
  const found = find([
    "b/v1 n2 rs 10.1.0.5",
    "a/v1 n2 rs 10.1.0.6",
    "z/v1 n1 rs 10.1.0.70",
    "a/v2 n1 rs 10.1.0.40",
    "a/elsewhere n1 rs 192.0.2.1",
    "a/starting n1 rs",
    "a/stray n3 rs 10.1.0.200",
    "a/bare n1 - 10.1.0.71",
    "a/file n1 static 10.1.0.72",
  ], [
    "d-0-v1 n2 10.1.0.0/27",
    "d-1 n1 10.1.0.32/27",
    "d-2-v1 n1 10.1.0.64/27",
    "d-3-v1 n1 10.1.0.96/27",
  ]);
  assert.deepEqual(found, {
    toReplace: ["z/v1", "a/v1", "b/v1", "a/stray"],
    kept: ["a/bare: no controller", "a/file: static pod"],
    inUse: ["d-0-v1", "d-2-v1"],
  });
});

Deno.test("findV1Pods() leaves pods of v2 alone whose block a late manifest reserves", () => {
  const found = find(["a/p n1 rs 10.1.0.5"], [
    "d-0 n1 10.1.0.0/27",
    "d-0-v1 n2 10.1.0.0/27",
  ]);
  assert.deepEqual(found, { toReplace: [], kept: [], inUse: [] });
});

Deno.test("nextPod() keeps to the limits, and to one pod of a controller", () => {
  const pods = [
    "a/1 n1 x",
    "a/2 n1 y",
    "b/3 n1 z",
    "b/4 n2 x",
    "b/5 n2 z",
    "c/6 n2 -",
  ].map(pod);
  const pick = (
    active: readonly number[],
    limits: readonly [number, number, number],
  ) => {
    const [parallel, perNode, perNamespace] = limits;
    const next = nextPod(
      pods.filter((_, i) => !active.includes(i)),
      pods.filter((_, i) => active.includes(i)),
      { parallel, perNode, perNamespace },
    );
    return next && nameText(next);
  };
  assert.equal(pick([], [1, 1, 1]), "a/1");
  assert.equal(pick([0], [1, 9, 9]), undefined);
  assert.equal(pick([0], [9, 1, 9]), "b/5");
  assert.equal(pick([0], [9, 9, 9]), "a/2");
  assert.equal(pick([0], [9, 9, 1]), "b/3");
  assert.equal(pick([0, 2], [9, 9, 1]), "c/6");
  assert.equal(pick([0, 1, 2, 5], [9, 9, 9]), undefined);
});
