import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { clientPodOf, isClientPod, transformClientPod } from "./client_pod.ts";

const EGRESS = { namespace: "nat", name: "internet" };

function pod(
  annotations: Record<string, string>,
  more: { readonly hostNetwork?: boolean; readonly phase?: string } = {},
): V1Pod {
  const { hostNetwork, phase = "Running" } = more;
  return {
    metadata: {
      name: "client",
      namespace: "team",
      uid: "u1",
      resourceVersion: "7",
      annotations,
      labels: { app: "x" },
    },
    spec: {
      nodeName: "node1",
      containers: [{ name: "c" }],
      ...(hostNetwork !== undefined && { hostNetwork }),
    },
    status: {
      phase,
      podIP: "10.1.1.2",
      podIPs: [{ ip: "10.1.1.2" }, { ip: "fd01::2" }],
      conditions: [],
    },
  };
}

const KEY = "egress.coil.cybozu.com/nat";

for (
  const [what, annotations, more, expected] of [
    ["names it", { [KEY]: "internet" }, {}, true],
    ["names it among others", { [KEY]: "dmz,internet" }, {}, true],
    ["has blanks and gaps", { [KEY]: " , dmz , internet,, " }, {}, true],
    ["waits for its start", { [KEY]: "internet" }, { phase: "Pending" }, true],
    ["names another", { [KEY]: "dmz" }, {}, false],
    ["names a longer name", { [KEY]: "internet2" }, {}, false],
    ["names nothing", { [KEY]: "" }, {}, false],
    ["means another namespace", { [`${KEY}2`]: "internet" }, {}, false],
    ["has no annotation", {}, {}, false],
    ["is on the host's network (CT-32)", { [KEY]: "internet" }, {
      hostNetwork: true,
    }, false],
    [
      "has succeeded",
      { [KEY]: "internet" },
      { phase: "Succeeded" },
      false,
    ],
    ["has failed", { [KEY]: "internet" }, { phase: "Failed" }, false],
  ] as const
) {
  Deno.test(`isClientPod() is ${expected} for a pod that ${what}`, () => {
    assert.equal(isClientPod(pod(annotations, more), EGRESS), expected);
  });
}

Deno.test("transformClientPod() keeps exactly what clientPodOf() and the store need", () => {
  const whole = pod({ [KEY]: "internet" });
  const transformed = transformClientPod(whole);
  assert.deepEqual(transformed, {
    metadata: {
      name: "client",
      namespace: "team",
      uid: "u1",
      resourceVersion: "7",
    },
    spec: { nodeName: "node1", containers: [] },
    status: { podIPs: [{ ip: "10.1.1.2" }, { ip: "fd01::2" }] },
  });
  assert.deepEqual(clientPodOf(transformed), clientPodOf(whole));
  const { addresses, ...rest } = clientPodOf(transformed);
  assert.deepEqual(addresses.map(String), ["10.1.1.2", "fd01::2"]);
  assert.deepEqual(rest, {
    namespace: "team",
    name: "client",
    uid: "u1",
    nodeName: "node1",
  });
});

Deno.test("clientPodOf() takes a pod without status, and leaves out what is no address", () => {
  assert.deepEqual(clientPodOf({}).addresses, []);
  const odd = { status: { podIPs: [{ ip: "" }, { ip: "10.1.1.2" }] } };
  assert.deepEqual(clientPodOf(odd).addresses.map(String), ["10.1.1.2"]);
});
