import { type KubeClient, PODS } from "../../../lib/kube/mod.ts";
import {
  APP_COMPONENT_LABEL,
  APP_NAME,
  APP_NAME_LABEL,
  nameText,
  SYSTEM_NAMESPACE,
} from "../../../lib/names/mod.ts";
import {
  type LivePod,
  livePodOf,
  type Progress,
  type ReplacementContext,
  replacePod,
} from "../../../lib/eviction/mod.ts";
import type { MigrationRecord } from "../cluster/record.ts";

const SELECTOR = `${APP_NAME_LABEL}=${APP_NAME},${APP_COMPONENT_LABEL}=coild`;

/** The pods of coild, by node. */
export async function listCoildPods(
  client: KubeClient,
  { signal }: { readonly signal: AbortSignal },
): Promise<LivePod[]> {
  const pods: LivePod[] = [];
  await client.listItems(PODS, {
    namespace: SYSTEM_NAMESPACE,
    labelSelector: SELECTOR,
    signal,
  }, (pod) => pods.push(livePodOf(pod)));
  return pods.toSorted((a, b) => a.node < b.node ? -1 : 1);
}

/** Those that were there when the last reserved block was removed. */
export function yetToRestart(
  pods: readonly LivePod[],
  { coildToRestart = "" }: MigrationRecord,
): LivePod[] {
  const uids = new Set(coildToRestart.split(" "));
  return pods.filter(({ uid }) => uids.has(uid));
}

/** Restarts coild node by node, so that each exports what its node has now. */
export async function restartCoild(
  pods: readonly LivePod[],
  context: ReplacementContext & { readonly progress: Progress },
): Promise<void> {
  const { progress } = context;
  for (const pod of pods) {
    progress.show(`restarting ${nameText(pod)} on node ${pod.node}`);
    await replacePod(pod, { ...context, deleteOutright: true });
    progress.done(`${nameText(pod)} on node ${pod.node}: restarted`);
  }
  progress.end();
}
