import assert from "node:assert/strict";
import { OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";
import { AddressError, NotReadyError } from "../base/errors.ts";
import { PodEvents } from "./pod_events.ts";

Deno.test("PodEvents reports on a pod what an admin can fix, and nothing that passes", () => {
  const told: unknown[] = [];
  const events = new PodEvents(
    { event: (...args: unknown[]) => void told.push(args) } as never,
    { uidOf: (_, name) => name === "web" ? "uid-of-web" : undefined },
  );
  const error = new OutOfBlocksError("default");
  events.addFailed({ namespace: "team", name: "web" }, error, "c1");
  events.addFailed({ namespace: "team", name: "new" }, error, "c2");
  // The cache has the pod before it of that name.
  const next = { namespace: "team", name: "web", uid: "uid-of-next" };
  events.addFailed(next, error, "c3");
  events.addFailed(
    { namespace: "team", name: "web" },
    new NotReadyError("x"),
    "c1",
  );
  events.addFailed({ namespace: "team", name: "web" }, "no error", "c1");
  const pod = { apiVersion: "v1", kind: "Pod", namespace: "team" };
  const { message } = error;
  const infoOf = (containerId: string) => ({
    type: "Warning",
    reason: "AddressPoolExhausted",
    message,
    annotations: { "coil.cybozu.com/container-id": containerId },
  });
  assert.deepEqual(told, [
    [{ ...pod, name: "web", uid: "uid-of-web" }, infoOf("c1")],
    [{ ...pod, name: "new" }, infoOf("c2")],
    [{ ...pod, name: "web", uid: "uid-of-next" }, infoOf("c3")],
  ]);
});

Deno.test("PodEvents leave out what differs from one moment to the next", () => {
  const messages: string[] = [];
  const events = new PodEvents(
    {
      event: (_ref: unknown, { message }: EventInfo) =>
        void messages.push(message),
    } as never,
    { uidOf: () => undefined },
  );
  const cause = new OutOfBlocksError("default");
  const pod = { namespace: "team", name: "web" };
  for (const seconds of [7, 6]) {
    const message = `for ${seconds} s more`;
    const error = new AddressError(message, { cause, event: "for a while" });
    events.addFailed(pod, error, "c1");
  }
  events.addFailed(pod, new AddressError("as it is", { cause }), "c1");
  assert.deepEqual(messages, ["for a while", "for a while", "as it is"]);
});
