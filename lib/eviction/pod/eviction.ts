import { waitWhile } from "../../async/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  PODS,
  resourcePath,
} from "../../kube/mod.ts";
import { EvictionError } from "../base/errors.ts";
import type { LivePod } from "../base/live_pod.ts";
import { nameText } from "../../names/mod.ts";
import type { Patience } from "../base/patience.ts";

export interface EvictionContext {
  readonly client: KubeClient;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  readonly evictionTimeoutMs: number;
  readonly pollMs: number;
  readonly onStage?: (stage: "evicting", detail?: string) => void;
}

/** The API server has errors of its own; one that lasts is about this pod. */
const MAX_SERVER_ERRORS = 3;

/**
 * Evicts a pod, as soon as its PodDisruptionBudgets allow it. Idempotent; a later pod of the name is left alone.
 *
 * @throws {EvictionError} when that is refused all the time, or for good
 */
export async function evict(
  pod: LivePod,
  context: EvictionContext,
): Promise<void> {
  const { signal, evictionTimeoutMs, pollMs, onStage } = context;
  const late = (refusal: KubeApiError) =>
    notAllowed(pod, refusal, evictionTimeoutMs);
  let serverErrors = 0;
  await waitWhile(async () => {
    const refusal = await tryEvict(pod, context);
    if (refusal === undefined) return undefined;
    if (refusal.status === 500) serverErrors++;
    else if (!refusal.isTooManyRequests) throw refusal;
    if (serverErrors >= MAX_SERVER_ERRORS) throw late(refusal);
    onStage?.("evicting", reasonsOf(refusal));
    return refusal;
  }, { timeoutMs: evictionTimeoutMs, pollMs, signal, late });
}

/** Undefined when the pod is being deleted, or gone. */
async function tryEvict(
  { namespace, name, uid }: LivePod,
  { client, patience, signal }: EvictionContext,
): Promise<KubeApiError | undefined> {
  const path = resourcePath(PODS, { namespace, name, subresource: "eviction" });
  const body = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name, namespace },
    deleteOptions: { preconditions: { uid } },
  };
  return await patience.ask(async () => {
    try {
      await client.raw(path, { method: "POST", body, signal });
      return undefined;
    } catch (error) {
      // 429 is a budget's way to say no.
      const isAnswer = error instanceof KubeApiError && error.status < 502 &&
        !error.isForbidden && !error.isUnauthorized;
      if (!isAnswer) throw error;
      return error.isNotFound || error.isConflict ? undefined : error;
    }
  });
}

function notAllowed(
  pod: LivePod,
  refusal: KubeApiError,
  timeoutMs: number,
): EvictionError {
  const forTime = refusal.isTooManyRequests ? ` for ${timeoutMs / 1000} s` : "";
  return new EvictionError(
    `Cannot evict pod ${nameText(pod)}: the API server refuses it${forTime}: ${
      reasonsOf(refusal)
    }
  Give its workload another replica, let its other pods become ready, or loosen the PodDisruptionBudget.`,
    { cause: refusal },
  );
}

/** What budgets need and have, where the API server says so. */
function reasonsOf({ message, details }: KubeApiError): string {
  const causes = details?.causes?.flatMap((cause) => cause.message ?? []) ?? [];
  return causes.length === 0 ? message : causes.join("; ");
}
