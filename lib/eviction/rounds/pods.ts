import { sleep, TaskGroup } from "../../async/mod.ts";
import type { LivePod } from "../base/live_pod.ts";
import { nameText } from "../../names/mod.ts";
import { type ReplacementContext, replacePod } from "../pod/pod_replacement.ts";
import type { Progress } from "./progress.ts";
import { type Limits, nextPod } from "./order.ts";

export interface ReplacePodsOptions extends ReplacementContext {
  readonly limits: Limits;
  /** Pause before the first pod of each next node. */
  readonly intervalMs: number;
  readonly progress: Progress;
}

/**
 * Replaces pods in their order, within the limits. After a failure no further one is begun; those under way are
 * finished.
 *
 * @throws what the first failure was
 */
export async function replacePods(
  pods: readonly LivePod[],
  options: ReplacePodsOptions,
): Promise<void> {
  const { limits, signal, progress } = options;
  const waiting = new Set(pods);
  const active = new Set<LivePod>();
  const failures: unknown[] = [];
  let changed = Promise.withResolvers<void>();
  await using group = new TaskGroup({ signal });
  const begun = new Set<string>();
  while (failures.length === 0 && waiting.size > 0) {
    const pod = nextPod([...waiting], [...active], limits);
    if (pod === undefined) {
      await changed.promise;
      changed = Promise.withResolvers();
      continue;
    }
    await pauseBefore(pod.node, begun, options);
    if (failures.length > 0) break;
    begun.add(pod.node);
    waiting.delete(pod);
    active.add(pod);
    group.run(nameText(pod), async () => {
      try {
        await replaceOne(pod, options);
      } catch (error) {
        failures.push(error);
      }
      active.delete(pod);
      changed.resolve();
    });
  }
  await group.wait();
  progress.end();
  signal.throwIfAborted();
  if (failures.length > 0) throw failures[0];
}

async function pauseBefore(
  node: string,
  begun: ReadonlySet<string>,
  { intervalMs, progress, signal }: ReplacePodsOptions,
): Promise<void> {
  if (begun.size === 0 || begun.has(node) || intervalMs === 0) return;
  progress.show(`pausing before node ${node}`);
  await sleep(intervalMs, { signal });
}

async function replaceOne(
  pod: LivePod,
  options: ReplacePodsOptions,
): Promise<void> {
  const { progress } = options;
  const startMs = performance.now();
  const name = nameText(pod);
  await replacePod(pod, {
    ...options,
    onStage: (stage, detail) =>
      progress.show(
        `${name}: ${stage}${detail === undefined ? "" : ` (${detail})`}`,
      ),
  });
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const what = pod.controller === undefined ? "deleted" : "replaced";
  progress.done(`${name} on node ${pod.node}: ${what} (${seconds} s)`);
}
