import assert from "node:assert/strict";
import type { CoreV1Event, V1Pod } from "../../kube/mod.ts";
import { before, isRecovered } from "./recovery.ts";
import { troubleLines } from "./pod_trouble.ts";

/** `UID ready|unready|new|deleting|Succeeded|Failed`; "new" has no address yet. */
function pods(...lines: readonly string[]): V1Pod[] {
  return lines.map((line) => {
    const [uid = "", state = ""] = line.split(" ");
    const isPhase = state === "Succeeded" || state === "Failed";
    return {
      metadata: {
        uid,
        name: uid,
        namespace: "ns",
        ...(state === "deleting"
          ? { deletionTimestamp: "2026-01-01T00:00:00Z" }
          : {}),
      },
      spec: { nodeName: "n1", containers: [] },
      status: {
        phase: isPhase ? state : "Running",
        conditions: [{
          type: "Ready",
          status: state === "ready" || state === "deleting" ? "True" : "False",
        }],
        ...(state === "new" ? {} : { podIPs: [{ ip: "10.1.0.1" }] }),
      },
    };
  });
}

const ANY_NUMBER = { isOver: false };

Deno.test("isRecovered() waits for as many ready pods as there were", () => {
  const was = before(pods("a ready", "b ready", "c unready"), "a");
  const back = (...now: string[]) =>
    isRecovered(was, {
      pods: pods(...now),
      desired: { isOver: false, replicas: 3 },
    });
  assert.equal(back("a deleting", "b ready", "c unready"), false);
  assert.equal(back("b ready", "c unready", "d new"), false);
  assert.equal(back("b ready", "c unready", "d unready"), false);
  assert.equal(back("b ready", "c unready", "d ready"), true);
});

Deno.test("isRecovered() does not wait for more than the controller wants by now", () => {
  const was = before(pods("a ready", "b ready"), "a");
  const now = pods("b ready");
  assert.equal(isRecovered(was, { pods: now, desired: ANY_NUMBER }), false);
  const fewer = { isOver: false, replicas: 1 };
  assert.equal(isRecovered(was, { pods: now, desired: fewer }), true);
  assert.equal(isRecovered(was, { pods: [], desired: { isOver: true } }), true);
});

Deno.test("isRecovered() is content with an address where the pod was not ready before", () => {
  const was = before(pods("a unready", "b ready"), "a");
  const back = (...now: string[]) =>
    isRecovered(was, { pods: pods(...now), desired: ANY_NUMBER });
  assert.equal(back("b ready"), false);
  assert.equal(back("b ready", "c new"), false);
  assert.equal(back("b ready", "c unready"), true);
});

Deno.test("isRecovered() takes a pod that has ended well, as those of a Job do", () => {
  const was = before(pods("a ready", "z Succeeded"), "a");
  const back = (...now: string[]) =>
    isRecovered(was, { pods: pods(...now), desired: ANY_NUMBER });
  assert.equal(back("z Succeeded"), false);
  assert.equal(back("z Succeeded", "b Failed"), false);
  assert.equal(back("z Succeeded", "b Succeeded"), true);
});

Deno.test("troubleLines() says why pods are not ready", () => {
  const [pending, stuck] = pods("a new", "b unready");
  const event = (involvedObject: object, reason: string): CoreV1Event => ({
    type: "Warning",
    reason,
    message: "why",
    metadata: {},
    involvedObject,
  });
  const lines = troubleLines([
    {
      ...pending,
      spec: { containers: [] },
      status: {
        phase: "Pending",
        conditions: [{
          type: "PodScheduled",
          status: "False",
          message: "0/3 nodes are available",
        }],
      },
    },
    {
      ...stuck,
      status: {
        ...stuck?.status,
        containerStatuses: [{
          name: "main",
          image: "",
          imageID: "",
          restartCount: 9,
          ready: false,
          state: {
            waiting: { reason: "ImagePullBackOff", message: "no such" },
          },
        }],
      },
    },
  ], [
    event({ kind: "Pod", uid: "b", name: "b" }, "FailedCreatePodSandBox"),
    event({ kind: "Pod", uid: "other", name: "other" }, "BackOff"),
    event({ kind: "ReplicaSet", uid: "rs", name: "rs" }, "FailedCreate"),
  ]);
  assert.deepEqual(lines, [
    "pod ns/a: 0/3 nodes are available",
    "pod ns/b on n1: container main: ImagePullBackOff: no such",
    "Pod b: FailedCreatePodSandBox: why",
    "ReplicaSet rs: FailedCreate: why",
  ]);
  assert.deepEqual(troubleLines([], []), [
    "no replacement pod was created",
  ]);
});
