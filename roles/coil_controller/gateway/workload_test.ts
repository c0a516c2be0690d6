import assert from "node:assert/strict";
import { workloadOf } from "./workload.ts";

Deno.test("workloadOf() says what the Deployment controller says", () => {
  assert.deepEqual(
    workloadOf({
      metadata: { generation: 3 },
      status: {
        observedGeneration: 3,
        replicas: 4,
        updatedReplicas: 2,
        availableReplicas: 1,
        conditions: [
          { type: "Available", status: "True", reason: "x", message: "y" },
          {
            type: "Progressing",
            status: "False",
            reason: "ProgressDeadlineExceeded",
            message: "has timed out progressing",
          },
          {
            type: "ReplicaFailure",
            status: "True",
            reason: "FailedCreate",
            message: "quota exceeded",
          },
        ],
      },
    }),
    {
      isObserved: true,
      replicas: 4,
      updatedReplicas: 2,
      availableReplicas: 1,
      failure: { reason: "FailedCreate", message: "quota exceeded" },
      progress: {
        isStuck: true,
        isComplete: false,
        message: "has timed out progressing",
      },
    },
  );
});

Deno.test("workloadOf() takes a failure that is over, and a status of an older spec, for what they are", () => {
  const conditions = [
    { type: "ReplicaFailure", status: "False" },
    {
      type: "Progressing",
      status: "True",
      reason: "NewReplicaSetAvailable",
    },
  ];
  const workload = workloadOf({
    metadata: { generation: 3 },
    status: { observedGeneration: 2, conditions },
  });
  assert.equal(workload.isObserved, false);
  assert.equal(workload.failure, undefined);
  assert.deepEqual(workload.progress, {
    isStuck: false,
    isComplete: true,
    message: "",
  });
  assert.deepEqual(workloadOf({}), {
    isObserved: true,
    replicas: 0,
    updatedReplicas: 0,
    availableReplicas: 0,
  });
});
