import { waitWhile } from "../../async/mod.ts";
import { EVENTS, type KubeClient, PODS, unlessGone } from "../../kube/mod.ts";
import { type Before, before, isRecovered } from "./recovery.ts";
import { EvictionError } from "../base/errors.ts";
import { evict } from "./eviction.ts";
import type { LivePod } from "../base/live_pod.ts";
import { nameText } from "../../names/mod.ts";
import type { Patience } from "../base/patience.ts";
import { desiredOf, type PodOwner, podsOf } from "./pod_owner.ts";
import { troubleLines } from "./pod_trouble.ts";

/** How far the replacement of a pod is. */
export type Stage =
  | "evicting"
  | "waiting for its end"
  | "waiting for its replacement";

export interface ReplacementContext {
  readonly client: KubeClient;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  /** How long a PodDisruptionBudget may forbid the eviction. */
  readonly evictionTimeoutMs: number;
  /** How long a pod may take to be gone, and its successor to be ready. */
  readonly podTimeoutMs: number;
  readonly pollMs: number;
}

/** How a pod is replaced, and what reports its progress. */
export interface ReplacementOptions {
  /** Deletes the pod outright, also when a PodDisruptionBudget forbids it. */
  readonly deleteOutright?: boolean;
  readonly onStage?: (stage: Stage, detail?: string) => void;
}

/**
 * Evicts a pod and waits until its controller has replaced it.
 *
 * @throws {EvictionError} when the pod cannot be evicted, does not go, or does not come back
 */
export async function replacePod(
  pod: LivePod,
  context: ReplacementContext & ReplacementOptions,
): Promise<void> {
  const { controller: reference, namespace } = pod;
  const owner = reference && { namespace, reference };
  const was = owner && before(await podsOf(owner, context), pod.uid);
  context.onStage?.("evicting");
  if (context.deleteOutright) await deletePod(pod, context);
  else await evict(pod, context);
  context.onStage?.("waiting for its end");
  await waitUntilGone(pod, context);
  if (owner === undefined || was === undefined) return;
  context.onStage?.("waiting for its replacement");
  await waitUntilBack(pod, { ...context, owner, was });
}

async function deletePod(
  { namespace, name, uid }: LivePod,
  { client, patience, signal }: ReplacementContext,
): Promise<void> {
  const preconditions = { uid };
  await patience.ask(() =>
    unlessGone(() =>
      client.delete(PODS, { namespace, name, preconditions, signal })
    )
  );
}

async function waitUntilGone(
  pod: LivePod,
  { client, patience, signal, podTimeoutMs, pollMs }: ReplacementContext,
): Promise<void> {
  const { namespace, name, uid } = pod;
  await waitWhile(async () => {
    const found = await patience.ask(() =>
      client.tryGet(PODS, { namespace, name, metadataOnly: true, signal })
    );
    return found?.metadata?.uid === uid ? found.metadata : undefined;
  }, {
    timeoutMs: podTimeoutMs,
    pollMs,
    signal,
    late: ({ finalizers = [] }) => {
      const why = finalizers.length > 0
        ? `it waits for its finalizers ${finalizers.join(", ")}`
        : `is the kubelet of node ${pod.node} running?`;
      return new EvictionError(
        `Cannot replace pod ${
          nameText(pod)
        }: it was evicted, and is still there after ${
          podTimeoutMs / 1000
        } s: ${why}`,
      );
    },
  });
}

async function waitUntilBack(
  pod: LivePod,
  context: ReplacementContext & {
    readonly owner: PodOwner;
    readonly was: Before;
  },
): Promise<void> {
  const { owner, was, signal, podTimeoutMs, pollMs } = context;
  await waitWhile(async () => {
    const desired = await desiredOf(owner, context);
    const pods = await podsOf(owner, context);
    return isRecovered(was, { pods, desired }) ? undefined : pods;
  }, {
    timeoutMs: podTimeoutMs,
    pollMs,
    signal,
    late: async (pods) => {
      const lines = troubleLines(pods, await eventsOf(owner, context));
      const { kind, name } = owner.reference;
      return new EvictionError(
        `Cannot go on: pod ${
          nameText(pod)
        } of ${kind} ${owner.namespace}/${name} does not come back: after ${
          podTimeoutMs / 1000
        } s its successor is not ${was.wasReady ? "ready" : "there"}
${lines.map((line) => `  ${line}`).join("\n")}`,
      );
    },
  });
}

/** Events that can say why: of the controller and of pods. */
async function eventsOf(
  { namespace, reference }: PodOwner,
  { client, patience, signal }: ReplacementContext,
) {
  const { items } = await patience.ask(() =>
    client.listAll(EVENTS, { namespace, fieldSelector: "type=Warning", signal })
  );
  return items.filter(({ involvedObject }) =>
    involvedObject.kind === "Pod" || involvedObject.uid === reference.uid
  );
}
