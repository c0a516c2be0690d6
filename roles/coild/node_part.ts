import type { KeyedMutex, Loops } from "../../lib/async/mod.ts";
import type { AdminCalls } from "./server/admin_door.ts";
import type {
  EventRecorder,
  KubeClient,
  KubeMetrics,
} from "../../lib/kube/mod.ts";
import type { Registry } from "../../lib/telemetry/mod.ts";
import type { Attachments } from "./calls/attachments.ts";
import type { CallsInFlight } from "./observe/calls_in_flight.ts";
import type { CoildOptions } from "./flags.ts";
import type { CoildMetrics } from "./observe/metrics.ts";
import type { PodEvents } from "./observe/pod_events.ts";
import type { PodSource } from "./cluster/pod_source.ts";
import type { Readiness } from "./observe/readiness.ts";

export interface NodeDependencies {
  readonly options: CoildOptions;
  readonly nodeName: string;
  readonly client: KubeClient;
  readonly registry: Registry;
  readonly metrics: CoildMetrics;
  readonly kubeMetrics: KubeMetrics;
  readonly recorder: EventRecorder;
  readonly pods: PodSource;
  readonly events: PodEvents;
  /** Guards everything about one attachment. */
  readonly locks: KeyedMutex;
  /** Those of the plugin `coil`. */
  readonly calls: CallsInFlight;
  /** How often, about, the network is looked at when the kernel reports nothing, if not as usual. */
  readonly lookMs: number | undefined;
  /** Takes what has to be closed at the end. */
  readonly stack: AsyncDisposableStack;
}

/** One of the two ways to have pods, with all that works for it. */
export interface NodePart {
  readonly attachments: Attachments;
  readonly readiness: Readiness;
  readonly loops: Loops;
  /** Whether single pods lack something that could not be put back; what, in words. */
  checkNetwork(): true | string;
  /** What administrators may ask; absent where another plugin has the addresses. */
  readonly admin?: AdminCalls;
  /** Brings the part to readiness, and goes on until the signal. */
  run(signal: AbortSignal): Promise<void>;
  /** Comes after the last call. */
  finish(): Promise<void>;
}
