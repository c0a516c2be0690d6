import assert from "node:assert/strict";
import type { KubeObject } from "../../../lib/kube/mod.ts";
import {
  fingerprintOf,
  transformBinding,
  transformDeployment,
  transformEgress,
  transformOwned,
  transformPod,
} from "./transform.ts";

const OBJECT = {
  metadata: {
    name: "nat",
    labels: { a: "b" },
    ownerReferences: [{ apiVersion: "v1", kind: "x", name: "y", uid: "z" }],
    resourceVersion: "1",
  },
  spec: { replicas: 1 },
  roleRef: { name: "r" },
  subjects: [{ name: "s" }],
  status: { replicas: 1 },
};

const CHANGES: Readonly<Record<string, KubeObject>> = {
  labels: { ...OBJECT, metadata: { ...OBJECT.metadata, labels: {} } },
  owners: { ...OBJECT, metadata: { ...OBJECT.metadata, ownerReferences: [] } },
  spec: { ...OBJECT, spec: { replicas: 2 } } as KubeObject,
  roleRef: { ...OBJECT, roleRef: {} } as KubeObject,
  subjects: { ...OBJECT, subjects: [] } as KubeObject,
};

for (const [what, changed] of Object.entries(CHANGES)) {
  Deno.test(`fingerprintOf() is another one with other ${what}`, () => {
    assert.notEqual(fingerprintOf(changed), fingerprintOf(OBJECT));
  });
}

Deno.test("fingerprintOf() is the same with another version and status", () => {
  const metadata = { ...OBJECT.metadata, resourceVersion: "2" };
  const later = { ...OBJECT, metadata, status: {} };
  assert.equal(fingerprintOf(later), fingerprintOf(OBJECT));
});

Deno.test("caches keep who an object is, and neither annotations nor who wrote which field", () => {
  const metadata = {
    ...OBJECT.metadata,
    namespace: "internet",
    uid: "u",
    generation: 2,
  };
  const object = {
    ...OBJECT,
    metadata: { ...metadata, annotations: { a: "b" }, managedFields: [{}] },
    spec: { template: { metadata: { labels: { pod: "yes" } } } },
  };
  const { podLabels } = transformDeployment(object as never);
  assert.deepEqual(podLabels, { pod: "yes" });
  for (
    const transform of [
      transformBinding,
      transformDeployment,
      transformEgress,
      transformOwned,
      transformPod,
    ]
  ) {
    const { metadata: kept } = transform(object as never) as KubeObject;
    assert.deepEqual(kept, metadata, transform.name);
  }
});
