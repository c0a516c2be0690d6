import assert from "node:assert/strict";
import type { EventInfo, ObjectReference } from "../../../lib/kube/mod.ts";
import { NodeEvents } from "../observe/node_events.ts";
import { PermissionEvents } from "./permission_events.ts";
import { attemptOf } from "./testing.ts";

Deno.test("PermissionEvents name a missing right on the Node, each call once in ten minutes", () => {
  let now = 0;
  const told: [ObjectReference, EventInfo][] = [];
  const events = new PermissionEvents({
    nodeEvents: new NodeEvents(
      { event: (ref, info) => void told.push([ref, info]) },
      { nodeName: "node1", nodeUid: () => "u" },
    ),
    now: () => now,
  });
  events.attempted(attemptOf("CreateTags", "RequestLimitExceeded"));
  events.attempted(attemptOf("CreateTags", "success"));
  assert.equal(told.length, 0);
  const denied = attemptOf("CreateTags", "UnauthorizedOperation");
  events.attempted(denied);
  events.attempted(denied);
  events.attempted(attemptOf("DetachNetworkInterface", "AccessDenied"));
  assert.equal(told.length, 2);
  const [[ref, info] = []] = told;
  assert.deepEqual(ref, {
    apiVersion: "v1",
    kind: "Node",
    name: "node1",
    uid: "u",
  });
  assert.equal(info?.reason, "MissingPermissions");
  assert.match(
    info.message,
    /denied CreateTags .*\(UnauthorizedOperation\).*; allow ec2:CreateTags in/,
  );
  now = 599_999;
  events.attempted(denied);
  assert.equal(told.length, 2);
  now = 600_000;
  events.attempted(denied);
  assert.equal(told.length, 3);
});
