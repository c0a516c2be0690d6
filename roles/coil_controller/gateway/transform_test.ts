import assert from "node:assert/strict";
import type { KubeObject } from "../../../lib/kube/mod.ts";
import { fingerprintOf } from "./transform.ts";

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
