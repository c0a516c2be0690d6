import { type CoreV1Event, isReadyPod, type V1Pod } from "../../kube/mod.ts";

/** More lines than this say nothing new. */
const MAX_LINES = 6;

/** Says in lines why a controller's pods are not ready, from their state and from events. */
export function troubleLines(
  pods: readonly V1Pod[],
  events: readonly CoreV1Event[],
): string[] {
  const waiting = pods.filter((pod) =>
    pod.metadata?.deletionTimestamp === undefined &&
    pod.status?.phase !== "Succeeded" && !isReadyPod(pod)
  );
  const uids = new Set(waiting.map(({ metadata }) => metadata?.uid));
  const own = events.filter(({ type, involvedObject }) =>
    type === "Warning" &&
    (uids.has(involvedObject.uid) || involvedObject.kind !== "Pod")
  );
  const states = waiting.map(stateLine);
  const lines = [
    ...(states.length === 0 ? ["no replacement pod was created"] : states),
    ...own.toSorted(byTime).map(({ involvedObject, reason, message }) =>
      `${involvedObject.kind} ${involvedObject.name}: ${reason}: ${message}`
    ),
  ];
  return [...new Set(lines)].slice(0, MAX_LINES);
}

function stateLine({ metadata, spec, status }: V1Pod): string {
  const pod = `${metadata?.namespace}/${metadata?.name}`;
  const place = spec?.nodeName === undefined ? "" : ` on ${spec.nodeName}`;
  const unscheduled = status?.conditions?.find(({ type, status }) =>
    type === "PodScheduled" && status === "False"
  );
  const containers = [
    ...status?.initContainerStatuses ?? [],
    ...status?.containerStatuses ?? [],
  ];
  const stuck = containers.find(({ state }) => state?.waiting !== undefined);
  const unready = containers.find(({ ready }) => !ready);
  let why = `phase ${status?.phase ?? "Pending"}`;
  if (unscheduled !== undefined) {
    why = unscheduled.message ?? unscheduled.reason ?? "not scheduled";
  } else if (stuck !== undefined) {
    const { reason, message } = stuck.state?.waiting ?? {};
    why = `container ${stuck.name}: ${reason ?? "waiting"}${
      message === undefined ? "" : `: ${message}`
    }`;
  } else if (unready !== undefined) {
    why = `container ${unready.name} is not ready`;
  } else if (status?.podIP === undefined) {
    why += ", without an address";
  }
  return `pod ${pod}${place}: ${why}`;
}

function byTime(a: CoreV1Event, b: CoreV1Event): number {
  const time = (e: CoreV1Event) => Date.parse(e.lastTimestamp ?? "") || 0;
  return time(b) - time(a);
}
