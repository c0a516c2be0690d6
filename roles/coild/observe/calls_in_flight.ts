import { AsyncLocalStorage } from "node:async_hooks";
import { type Clock, sleep, systemClock } from "../../../lib/async/mod.ts";
import type { CallEntry } from "../../../lib/cnirpc/inspection/mod.ts";
import { CONTAINER_ID_ANNOTATION } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { PodEvents } from "./pod_events.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";

/** A call that takes so long is reported: others take milliseconds, and a block some hundred. */
const LONG_MS = 5_000;
/** How often calls are looked at. A timer for each would take as long as some of its work. */
const LOOK_MS = 1_000;

const log = getLogger("grpc");

const current = new AsyncLocalStorage<Call>();

/** A call that takes long. */
export interface LongCall extends CallEntry {
  /** The pod's, where the runtime says it. */
  readonly podUid: string | undefined;
}

interface Call {
  readonly method: string;
  readonly request: CniRequest;
  readonly startMs: number;
  readonly clock: Clock;
  phase: string;
  phaseMs: number;
  isReported: boolean;
}

function enter(call: Call | undefined, phase: string): void {
  if (call === undefined) return;
  call.phase = phase;
  call.phaseMs = call.clock.nowMs();
}

/** Says which phase the current call is in, until disposal. Does nothing outside of calls. */
export function enterPhase(phase: string): Disposable {
  const call = current.getStore();
  enter(call, phase);
  return { [Symbol.dispose]: () => enter(call, "") };
}

/** Knows which calls are under way, and where each of them is. */
export class CallsInFlight {
  readonly #clock: Clock;
  readonly #calls = new Set<Call>();
  #started = 0;
  #startedAtLastLook = 0;

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    this.#clock = clock;
  }

  /** All of them, the longest first. */
  get list(): readonly CallEntry[] {
    return [...this.#calls].map((call) => this.#entryOf(call));
  }

  /** Whether a call is under way, or one has come since this was asked last. */
  isBusy(): boolean {
    const came = this.#started !== this.#startedAtLastLook;
    this.#startedAtLastLook = this.#started;
    return came || this.#calls.size > 0;
  }

  /** Begins a look: the returned function returns whether no call has run since. */
  watch(): () => boolean {
    const started = this.#started;
    const wasIdle = this.#calls.size === 0;
    return () => wasIdle && this.#started === started;
  }

  /** Makes a call; {@linkcode enterPhase} says where it is. */
  async track<T>(
    { method, request }: Pick<Call, "method" | "request">,
    make: () => Promise<T>,
  ): Promise<T> {
    const clock = this.#clock;
    const startMs = clock.nowMs();
    const call = {
      method,
      request,
      startMs,
      clock,
      phase: "",
      phaseMs: startMs,
      isReported: false,
    };
    this.#started++;
    this.#calls.add(call);
    try {
      return await current.run(call, make);
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Calls back once for each call that takes long, until the signal. */
  async reportLong(
    onLong: (call: LongCall) => void,
    signal: AbortSignal,
  ): Promise<void> {
    for (;;) {
      await sleep(LOOK_MS, { signal, clock: this.#clock });
      const beforeMs = this.#clock.nowMs() - LONG_MS;
      for (const call of this.#calls) {
        if (call.isReported || call.startMs > beforeMs) continue;
        call.isReported = true;
        const podUid = call.request.args["K8S_POD_UID"] || undefined;
        onLong({ ...this.#entryOf(call), podUid });
      }
    }
  }

  #entryOf(call: Call): CallEntry {
    const { containerId, ifname, args } = call.request;
    const nowMs = this.#clock.nowMs();
    return {
      method: call.method,
      containerId,
      ifname,
      namespace: args["K8S_POD_NAMESPACE"] ?? "",
      pod: args["K8S_POD_NAME"] ?? "",
      seconds: (nowMs - call.startMs) / 1_000,
      phase: call.phase,
      phaseSeconds: (nowMs - call.phaseMs) / 1_000,
    };
  }
}

/** What a call waits for in a phase. */
const WAITS_FOR: Readonly<Record<string, string>> = {
  lock: "another call for the same interface",
  pod: "the API server: the pod, its namespace and its Egresses",
  address:
    "an address: this node's blocks are used up, and no other one has come yet",
  network: "the kernel",
  egress: "the kernel, or gateways of its Egresses",
};

/** Writes a record about a call that takes long, and for an ADD an Event on its pod. */
export function onLong(
  call: LongCall,
  events: Pick<PodEvents, "record">,
): void {
  const { method, containerId, namespace, pod, podUid, phase, seconds } = call;
  log.warn("A CNI call takes long", {
    method,
    phase,
    container: containerId,
    ...(pod !== "" && { pod: `${namespace}/${pod}` }),
  });
  if (method !== "Add" || pod === "") return;
  const what = WAITS_FOR[phase];
  const late = `The pod's network is not ready after ${Math.round(seconds)} s`;
  events.record({ namespace, name: pod, uid: podUid }, {
    type: "Warning",
    reason: "NetworkDelayed",
    message: what === undefined ? late : `${late}: it waits for ${what}`,
    annotations: { [CONTAINER_ID_ANNOTATION]: containerId },
  });
}
