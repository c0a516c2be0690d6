import type { EgressWorkload } from "../../../lib/api/mod.ts";
import type { OwnedDeployment } from "./transform.ts";

/** Reads what the Deployment controller says, see its `Progressing` and `ReplicaFailure` in Kubernetes' documentation. */
export function workloadOf(
  { metadata, status }: OwnedDeployment,
): EgressWorkload {
  const conditions = status?.conditions ?? [];
  const failure = conditions.find((c) =>
    c.type === "ReplicaFailure" && c.status === "True"
  );
  const progress = conditions.find((c) => c.type === "Progressing");
  return {
    isObserved: (status?.observedGeneration ?? 0) >=
      (metadata?.generation ?? 0),
    replicas: status?.replicas ?? 0,
    updatedReplicas: status?.updatedReplicas ?? 0,
    availableReplicas: status?.availableReplicas ?? 0,
    ...(failure === undefined ? {} : {
      failure: {
        reason: failure.reason ?? "ReplicaFailure",
        message: failure.message ?? "",
      },
    }),
    ...(progress === undefined ? {} : {
      progress: {
        isStuck: progress.status === "False",
        isComplete: progress.reason === "NewReplicaSetAvailable",
        message: progress.message ?? "",
      },
    }),
  };
}
