import assert from "node:assert/strict";
import { OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import { PodEvents } from "./pod_events.ts";

Deno.test("PodEvents reports on a pod what an admin can fix, and nothing that passes", () => {
  const told: unknown[] = [];
  const events = new PodEvents(
    { event: (...args: unknown[]) => void told.push(args) } as never,
    { uidOf: (_, name) => name === "web" ? "uid-of-web" : undefined },
  );
  const error = new OutOfBlocksError("default");
  events.addFailed({ namespace: "team", name: "web" }, error);
  events.addFailed({ namespace: "team", name: "new" }, error);
  events.addFailed({ namespace: "team", name: "web" }, new NotReadyError("x"));
  events.addFailed({ namespace: "team", name: "web" }, "no error");
  const pod = { apiVersion: "v1", kind: "Pod", namespace: "team" };
  const { message } = error;
  const info = { type: "Warning", reason: "AddressPoolExhausted", message };
  assert.deepEqual(told, [
    [{ ...pod, name: "web", uid: "uid-of-web" }, info],
    [{ ...pod, name: "new" }, info],
  ]);
});
