import {
  forEachConcurrently,
  jittered,
  sleep,
} from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  EVENTS,
  hasEnded,
  type KubeClient,
  PODS,
  SERVICE_ACCOUNTS,
  SERVICES,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  KIND_LABEL,
  type Making,
  pods,
  service,
  serviceAccount,
} from "./objects.ts";
import type { PodKind, TestPod } from "./plan.ts";

/** Pods created at a time. */
const AT_ONCE = 16;
const LOOK_MS = 1_000;

/** Waiting does not help a container with one of these reasons. */
const HOPELESS = [
  ...["ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"],
  ...["CrashLoopBackOff", "RunContainerError", "CreateContainerConfigError"],
];

/** A pod that does not run. */
export interface NotStarted {
  readonly kind: PodKind;
  readonly node: string;
  readonly why: string;
  /** What to look at: the node's daemon, which has to make its network, or the pod itself. */
  readonly see: "coild" | "pod";
}

/** Pods that were started, and those that were not. */
export interface Started {
  readonly pods: readonly TestPod[];
  readonly notStarted: readonly NotStarted[];
  /** Addresses of the Service. */
  readonly service: readonly Address[];
}

export interface StartOptions extends Making {
  readonly client: KubeClient;
  readonly nodes: readonly string[];
  /** For all of them. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Creates the objects and waits until each pod runs or cannot. */
export async function startPods(options: StartOptions): Promise<Started> {
  const { client, namespace, nodes, signal } = options;
  await client.create(SERVICE_ACCOUNTS, serviceAccount(namespace), { signal });
  const { spec } = await client.create(SERVICES, service(namespace), {
    signal,
  });
  await forEachConcurrently(
    pods(nodes, options),
    AT_ONCE,
    async (pod) => void await client.create(PODS, pod, { signal }),
  );
  const all = await settledPods(options);
  const running = all.filter((pod) => stateOf(pod) === "running");
  const notStarted: NotStarted[] = [];
  for (const pod of all.filter((pod) => !running.includes(pod))) {
    notStarted.push({
      kind: kindOf(pod),
      node: pod.spec?.nodeName ?? "",
      ...await whyNot(pod, options),
    });
  }
  return {
    pods: running.map(testPodOf),
    notStarted,
    service: addressesIn(spec?.clusterIPs ?? []),
  };
}

async function settledPods(
  { client, namespace, timeoutMs, signal }: StartOptions,
): Promise<V1Pod[]> {
  const endsAt = performance.now() + timeoutMs;
  for (;;) {
    const { items } = await client.listAll(PODS, { namespace, signal });
    const isDone = items.every((pod) => stateOf(pod) !== "starting");
    if (isDone || performance.now() >= endsAt) return items;
    await sleep(jittered(LOOK_MS), { signal });
  }
}

function stateOf(pod: V1Pod): "running" | "starting" | "hopeless" {
  const { status } = pod;
  const [container] = status?.containerStatuses ?? [];
  const hasAddress = (status?.podIPs ?? []).length > 0;
  if (container?.state?.running !== undefined && hasAddress) return "running";
  const reason = container?.state?.waiting?.reason ?? "";
  return hasEnded(pod) || HOPELESS.includes(reason) ? "hopeless" : "starting";
}

/** What kubelet says of the pod, for which its network need not be to blame; else the last warning. */
async function whyNot(
  { metadata, status }: V1Pod,
  { client, namespace, signal }: StartOptions,
): Promise<Pick<NotStarted, "why" | "see">> {
  const said = status?.message ??
    status?.containerStatuses?.[0]?.state?.waiting?.message;
  if (said !== undefined) return { why: said, see: "pod" };
  const { items } = await client.list(EVENTS, {
    namespace,
    fieldSelector: `involvedObject.name=${metadata?.name},type=Warning`,
    signal,
  });
  const last = items.map(({ reason, message }) => `${reason}: ${message}`).at(
    -1,
  );
  return { why: last ?? "kubelet does not say why", see: "coild" };
}

function testPodOf(pod: V1Pod): TestPod {
  return {
    name: pod.metadata?.name ?? "",
    kind: kindOf(pod),
    node: pod.spec?.nodeName ?? "",
    addresses: addressesIn((pod.status?.podIPs ?? []).map(({ ip }) => ip)),
  };
}

function kindOf({ metadata }: V1Pod): PodKind {
  const kind = metadata?.labels?.[KIND_LABEL];
  return kind === "egress" || kind === "host-port" ? kind : "probe";
}

/** Texts that are not addresses, such as "None", are left out. */
export function addressesIn(texts: readonly string[]): Address[] {
  return texts.map((text) => Address.tryParse(text))
    .filter((address) => address !== undefined);
}
