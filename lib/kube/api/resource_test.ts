import assert from "node:assert/strict";
import {
  apiVersionOf,
  DEPLOYMENTS,
  keyOf,
  NODES,
  PODS,
  referenceTo,
  resourcePath,
  splitKey,
} from "./resource.ts";

Deno.test("resourcePath() builds paths of collections, objects and subresources", () => {
  const cases: [string, string][] = [
    [resourcePath(PODS), "/api/v1/pods"],
    [resourcePath(PODS, { namespace: "a" }), "/api/v1/namespaces/a/pods"],
    [resourcePath(NODES, { name: "n" }), "/api/v1/nodes/n"],
    [
      resourcePath(DEPLOYMENTS, {
        namespace: "a",
        name: "b",
        subresource: "scale",
      }),
      "/apis/apps/v1/namespaces/a/deployments/b/scale",
    ],
    [resourcePath(NODES, { name: "..x?y" }), "/api/v1/nodes/..x%3Fy"],
  ];
  for (const [found, expected] of cases) assert.equal(found, expected);
});

Deno.test("resourcePath() refuses what the API server would take for something else", () => {
  assert.throws(() => resourcePath(PODS, { name: "p" }), TypeError);
  assert.throws(() => resourcePath(NODES, { namespace: "a" }), TypeError);
  for (const odd of ["", ".", "..", "a/../b", "a%2fb"]) {
    const call = () => resourcePath(PODS, { namespace: "a", name: odd });
    assert.throws(call, TypeError, odd);
    const elsewhere = () => resourcePath(PODS, { namespace: odd });
    assert.throws(elsewhere, TypeError, odd);
  }
});

Deno.test("keyOf() and splitKey() are each other's inverse", () => {
  for (const metadata of [{ name: "n" }, { namespace: "a", name: "n" }]) {
    assert.deepEqual(splitKey(keyOf({ metadata })), metadata);
  }
});

Deno.test("referenceTo() names an object, with its namespace where it has one", () => {
  assert.deepEqual(
    referenceTo(PODS, { metadata: { namespace: "apps", name: "a", uid: "u" } }),
    { apiVersion: "v1", kind: "Pod", name: "a", uid: "u", namespace: "apps" },
  );
  assert.deepEqual(
    referenceTo(NODES, { metadata: { name: "l" } }),
    { apiVersion: "v1", kind: "Node", name: "l", uid: "" },
  );
});

Deno.test("apiVersionOf() leaves the core group out", () => {
  assert.equal(apiVersionOf(PODS), "v1");
  assert.equal(apiVersionOf(DEPLOYMENTS), "apps/v1");
});
