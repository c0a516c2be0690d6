import type { KeyedMutex } from "../../../lib/async/mod.ts";
import {
  type Outside,
  type PodArgs,
  runCoordinator,
} from "../../../lib/coordinator/mod.ts";
import type { Answer, PluginCall } from "../../../lib/plugin/mod.ts";
import { getLogger, withLogContext } from "../../../lib/telemetry/mod.ts";
import { NotReadyError, PodNotFoundError } from "../base/errors.ts";
import { isUnanswered, type PodSource } from "../cluster/pod_source.ts";
import type { CallCounter } from "../observe/call_counter.ts";
import type { CoordinatorMetrics } from "./metrics.ts";

const log = getLogger("coordinator");

export interface CoordinatorCallsOptions {
  /** The kernel, and what is configured for all pods. */
  readonly machine: Omit<Outside, "warn">;
  readonly pods: Pick<PodSource, "find">;
  readonly metrics: CoordinatorMetrics;
  /** Guards a container's interfaces, which share tables. */
  readonly locks: KeyedMutex;
  readonly counter: CallCounter;
}

/** Makes calls of the plugin `coordinator`, those of one container one after the other. */
export class CoordinatorCalls {
  readonly #with: CoordinatorCallsOptions;

  constructor(options: CoordinatorCallsOptions) {
    this.#with = options;
  }

  /** Makes one call. What it has begun it ends, also when the caller goes. */
  async perform(
    call: PluginCall,
    caller: { readonly signal: AbortSignal },
  ): Promise<Answer> {
    return await withLogContext(
      fieldsOf(call),
      () => this.#with.counter.count(() => this.#recorded(call, caller)),
    );
  }

  async #recorded(
    call: PluginCall,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Answer> {
    const { metrics } = this.#with;
    const startedMs = performance.now();
    const facts: Record<string, unknown> = {};
    const record = (result: "ok" | "error", err?: unknown) => {
      metrics.called(call.command, result);
      const elapsedMs = Math.round(performance.now() - startedMs);
      const fields = { command: call.command, ...facts, elapsedMs };
      if (err === undefined) log.info("Finished call", fields);
      else log.warn("Call failed", { ...fields, err });
    };
    try {
      const stdout = await this.#locked(call, signal, facts);
      record("ok");
      return { stdout, exitCode: 0 };
    } catch (error) {
      record("error", error);
      throw error;
    }
  }

  async #locked(
    call: PluginCall,
    signal: AbortSignal,
    facts: Record<string, unknown>,
  ): Promise<string> {
    const { locks, metrics, machine } = this.#with;
    const { containerId } = call.request;
    // GC and STATUS are of no container.
    using _lock = containerId === "" ? undefined : await metrics.phase(
      "lock",
      () => locks.lock(containerId, { signal }),
    );
    const outside: Outside = {
      ...machine,
      annotationsOf: (pod) =>
        metrics.phase("annotations", () => this.#annotationsOf(pod, signal)),
      note: (decided) => Object.assign(facts, decided),
      warn: (message, fields) => log.warn(message, fields),
    };
    return await metrics.phase("network", () => runCoordinator(outside, call));
  }

  /** From the cache of this node's pods, else by one request. */
  async #annotationsOf(
    args: PodArgs,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = args;
    const { K8S_POD_UID: uid } = args;
    if (!namespace || !name) return undefined;
    try {
      const query = { namespace, name, ...uid && { uid } };
      return (await this.#with.pods.find(query, { signal })).annotations;
    } catch (error) {
      if (!isUnknown(error)) throw error;
      return undefined;
    }
  }
}

function fieldsOf({ request }: PluginCall): Readonly<Record<string, string>> {
  const { containerId, ifname: iface, args } = request;
  const { K8S_POD_NAMESPACE: namespace = "", K8S_POD_NAME: pod = "" } = args;
  return { containerId, iface, namespace, pod };
}

function isUnknown(error: unknown): boolean {
  return error instanceof PodNotFoundError || error instanceof NotReadyError ||
    isUnanswered(error);
}
