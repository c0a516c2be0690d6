import assert from "node:assert/strict";
import type { Egress } from "../../../lib/api/mod.ts";
import { WrittenStatuses } from "./written.ts";

const KEY = "internet/nat";

function egress(
  resourceVersion: string,
  replicas: number,
  uid = "uid-1",
): Egress {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "internet", name: "nat", uid, resourceVersion },
    spec: { destinations: ["0.0.0.0/0"] },
    status: { replicas },
  };
}

function seenAfter(written: Egress, seen: Egress): number | undefined {
  const statuses = new WrittenStatuses();
  statuses.keep(KEY, written);
  return statuses.newest(KEY, seen)?.replicas;
}

Deno.test("WrittenStatuses has the written status until the watch shows it", () => {
  assert.equal(seenAfter(egress("1000", 2), egress("998", 1)), 2);
  assert.equal(seenAfter(egress("1000", 2), egress("999", 1)), 2);
  assert.equal(seenAfter(egress("1000", 2), egress("1000", 2)), 2);
  assert.equal(seenAfter(egress("1000", 2), egress("1001", 3)), 3);
});

Deno.test("WrittenStatuses ignores a former Egress of the same name", () => {
  assert.equal(seenAfter(egress("1000", 2), egress("999", 1, "uid-2")), 1);
});

Deno.test("WrittenStatuses believes the watch where versions are no numbers", () => {
  assert.equal(seenAfter(egress("b", 2), egress("a", 1)), 1);
});

Deno.test("WrittenStatuses.forget() forgets", () => {
  const statuses = new WrittenStatuses();
  statuses.keep(KEY, egress("1000", 2));
  statuses.forget(KEY);
  assert.equal(statuses.newest(KEY, egress("999", 1))?.replicas, 1);
});
