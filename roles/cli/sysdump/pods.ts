import { EXIT } from "../../../lib/flags/mod.ts";
import { forEachConcurrently } from "../../../lib/async/mod.ts";
import {
  type KubeClient,
  PODS,
  resourcePath,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { APP_COMPONENT_LABEL, nameText } from "../../../lib/names/mod.ts";
import { containerOf, type Exec, failureOf } from "../base/kubectl.ts";
import { isCoild } from "../check/nodes.ts";
import type { Collection } from "../archive/collection.ts";
import { type LocalReport, parseLocal } from "./local.ts";

export interface PodsOptions {
  readonly client: Pick<KubeClient, "raw">;
  readonly exec: Exec;
  /** Of each container's log, the newest. */
  readonly logLines: number;
  readonly signal: AbortSignal;
  /** Called after each pod. */
  readonly onDone: () => void;
}

/** Pods that are asked at a time. */
const AT_ONCE = 16;
/** Of a log, however long its lines are. */
const MAX_LOG_BYTES = 16 * 1024 * 1024;

/** Logs of Coil's pods, and what they say of themselves and of their nodes. */
export async function collectPods(
  pods: readonly V1Pod[],
  collection: Collection,
  options: PodsOptions,
): Promise<void> {
  await forEachConcurrently(pods, AT_ONCE, async (pod) => {
    await collectLogs(pod, collection, options);
    await collectLocal(pod, collection, options);
    options.onDone();
  });
}

/** Where the files of a pod are. */
function folderOf({ metadata, spec }: V1Pod): string {
  const { namespace = "", name = "" } = metadata ?? {};
  return `nodes/${spec?.nodeName ?? "none"}/${namespace}/${name}`;
}

function podText({ metadata }: V1Pod): string {
  const { namespace = "", name = "" } = metadata ?? {};
  return `Pod ${nameText({ namespace, name })}`;
}

async function collectLogs(
  pod: V1Pod,
  collection: Collection,
  { client, logLines, signal }: PodsOptions,
): Promise<void> {
  const { namespace, name } = pod.metadata ?? {};
  const path = resourcePath(PODS, { namespace, name, subresource: "log" });
  for (const { container, isPrevious } of logsOf(pod)) {
    const query = new URLSearchParams({
      container,
      tailLines: `${logLines}`,
      limitBytes: `${MAX_LOG_BYTES}`,
      ...(isPrevious ? { previous: "true" } : {}),
    });
    const file = `${container}${isPrevious ? ".previous" : ""}.log`;
    const text = await collection.attempt(
      `${podText(pod)}: ${file}`,
      () => client.raw(`${path}?${query}`, { signal }),
    );
    if (text === undefined) continue;
    await collection.add(`${folderOf(pod)}/${file}`, text);
  }
}

/** The logs that a pod's containers have; one that never ran has none. */
function logsOf(
  { status }: V1Pod,
): { readonly container: string; readonly isPrevious: boolean }[] {
  const containers = [
    ...status?.initContainerStatuses ?? [],
    ...status?.containerStatuses ?? [],
  ];
  return containers.flatMap(({ name, restartCount, state, lastState }) => {
    const ran = state?.waiting === undefined || restartCount > 0;
    const before = lastState?.terminated !== undefined;
    return [
      ...(ran ? [{ container: name, isPrevious: false }] : []),
      ...(before ? [{ container: name, isPrevious: true }] : []),
    ];
  });
}

async function collectLocal(
  pod: V1Pod,
  collection: Collection,
  { exec, signal }: PodsOptions,
): Promise<void> {
  const what = `${podText(pod)}: its own report`;
  const report = await collection.attempt(
    what,
    () => askPod(pod, { exec, signal }),
  );
  if (report === undefined) return;
  for (const [name, text] of Object.entries(report.files)) {
    await collection.add(`${folderOf(pod)}/${name}`, text);
  }
  for (const { what, why } of report.missing) {
    collection.miss(`${podText(pod)}: ${what}`, why);
  }
}

/** @throws {Error} when the pod does not run, is not reached, or answers something else */
async function askPod(
  pod: V1Pod,
  { exec, signal }: Pick<PodsOptions, "exec" | "signal">,
): Promise<LocalReport> {
  const target = containerOf(pod);
  if (!isRunning(pod, target.container)) {
    throw new Error(`container "${target.container}" is not running`);
  }
  const port = pod.spec?.containers[0]?.ports?.find((port) =>
    port.name === "metrics"
  );
  const ran = await exec(target, [
    ...["sysdump", "--local"],
    `--component=${pod.metadata?.labels?.[APP_COMPONENT_LABEL] ?? ""}`,
    `--metrics-port=${port?.containerPort ?? 0}`,
  ], { signal });
  if (ran.code === EXIT.usage) {
    throw new Error("its coil is too old: it has no sysdump");
  }
  if (ran.code !== EXIT.ok) throw new Error(failureOf(ran));
  return parseLocal(ran.stdout);
}

function isRunning({ status }: V1Pod, container: string): boolean {
  return (status?.containerStatuses ?? []).some(({ name, state }) =>
    name === container && state?.running !== undefined
  );
}

/** The names of Linux nodes on which no pod is coild's: of these there is nothing to ask. */
export function nodesWithoutCoild(
  nodes: readonly Pick<V1Node, "metadata">[],
  pods: readonly V1Pod[],
): string[] {
  const served = new Set(
    pods.filter(isCoild).map(({ spec }) => spec?.nodeName),
  );
  return nodes.filter(({ metadata }) =>
    metadata?.labels?.["kubernetes.io/os"] !== "windows"
  ).map(({ metadata }) => metadata?.name ?? "")
    .filter((name) => !served.has(name));
}
