import assert from "node:assert/strict";
import { CONTROLLER_LEASES } from "../../../lib/names/mod.ts";
import { Looker } from "../base/looker.ts";
import { OBJECTS, objectsText } from "./objects.ts";

/** What is kept of these objects. */
async function kept(plural: string, ...items: readonly object[]): Promise<
  unknown[] | undefined
> {
  const reader = OBJECTS.find((one) => one.plural === plural);
  // The generic list cannot be written down otherwise.
  const list = async () => ({ items, resourceVersion: "1" }) as never;
  return await reader?.read(new Looker({ list, listItems: list }, 500), {
    signal: new AbortController().signal,
    ownPods: new Set(["own"]),
  });
}

Deno.test("of Nodes is kept what Coil depends on", async () => {
  const [node] = await kept("nodes", {
    metadata: {
      name: "n1",
      labels: { "kubernetes.io/os": "linux", "acme.example/x": "y" },
      annotations: { a: "b" },
    },
    spec: { podCIDRs: ["10.0.0.0/24"], providerID: "aws:///i-1" },
    status: {
      addresses: [],
      images: [{ names: ["registry.acme.example/x"] }],
    },
  }) ?? [];
  assert.deepEqual(node, {
    metadata: { name: "n1", labels: { "kubernetes.io/os": "linux" } },
    spec: { podCIDRs: ["10.0.0.0/24"] },
    status: { addresses: [] },
  });
});

Deno.test("of namespaces those are kept that say something to Coil", async () => {
  const own = { "coil.cybozu.com/pool": "fast" };
  const namespaces = await kept(
    "namespaces",
    { metadata: { name: "a", annotations: { ...own, x: "y" } } },
    { metadata: { name: "b", labels: { "acme.example/x": "y" } } },
  );
  assert.deepEqual(namespaces, [
    {
      metadata: {
        name: "a",
        annotations: own,
        labels: {},
        creationTimestamp: undefined,
      },
    },
  ]);
});

Deno.test("of Leases those of Coil's leaders are kept", async () => {
  const lease = (name: string) => ({ metadata: { name } });
  assert.deepEqual(
    await kept("leases", ...CONTROLLER_LEASES.map(lease), lease("other")),
    CONTROLLER_LEASES.map(lease),
  );
});

for (
  const [what, isKept, event] of [
    ["of another pod", false, {}],
    ["by Coil", true, { source: { component: "coild" } }],
    ["by Coil, newer API", true, { reportingComponent: "coil-controller" }],
    ["by another", false, { source: { component: "kubelet" } }],
    ["about a pool", true, {
      involvedObject: { apiVersion: "coil.cybozu.com/v2", name: "x" },
    }],
    ["about a gateway", true, { involvedObject: { uid: "own" } }],
    ["about a Deployment of Coil", true, {
      involvedObject: { name: "coil-controller" },
    }],
    ["of a pod without network", true, { reason: "FailedCreatePodSandBox" }],
  ] as const
) {
  Deno.test(`an Event ${what} is ${isKept ? "kept" : "left out"}`, async () => {
    const involvedObject = { kind: "Pod", name: "web", uid: "u" };
    const events = await kept("events", { involvedObject, ...event });
    assert.equal(events?.length, isKept ? 1 : 0);
  });
}

Deno.test("objectsText() has an object a line, and is JSON", () => {
  const text = objectsText([{ a: 1 }, { b: "\n" }]);
  assert.equal(text, '[\n{"a":1},\n{"b":"\\n"}\n]\n');
  assert.deepEqual(JSON.parse(text), [{ a: 1 }, { b: "\n" }]);
  assert.deepEqual(JSON.parse(objectsText([])), []);
});
