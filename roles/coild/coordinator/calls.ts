import type { PluginAnswer } from "../../../lib/cnirpc/plugin/mod.ts";
import type { KeyedMutex } from "../../../lib/async/mod.ts";
import {
  isLogged,
  logOptionsOf,
  type NetworkProblem,
  type Outside,
  type PodArgs,
  runCoordinator,
} from "../../../lib/coordinator/mod.ts";
import { CONTAINER_ID_ANNOTATION } from "../../../lib/names/mod.ts";
import type { PluginCall } from "../../../lib/plugin/mod.ts";
import { getLogger, withLogContext } from "../../../lib/telemetry/mod.ts";
import { NotReadyError, PodNotFoundError } from "../base/errors.ts";
import { isUnanswered, type PodSource } from "../cluster/pod_source.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";
import type { PodEvents } from "../observe/pod_events.ts";
import type { CoordinatorMetrics } from "./metrics.ts";
import { countedProbes } from "./probes.ts";

const log = getLogger("coordinator");

export interface CoordinatorCallsOptions {
  /** The kernel, and what is configured for all pods. */
  readonly machine: Omit<Outside, "warn">;
  readonly pods: Pick<PodSource, "find">;
  readonly events: Pick<PodEvents, "record">;
  readonly metrics: CoordinatorMetrics;
  /** Guards a container's interfaces, which share tables. */
  readonly locks: KeyedMutex;
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
  ): Promise<PluginAnswer> {
    return await withLogContext(
      fieldsOf(call),
      () => this.#recorded(call, caller),
    );
  }

  async #recorded(
    call: PluginCall,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<PluginAnswer> {
    const { metrics } = this.#with;
    const startedMs = performance.now();
    const facts: Record<string, unknown> = {};
    const options = logOptionsOf(call.conf);
    const warn: Outside["warn"] = (message, fields) => {
      if (isLogged("warn", options)) log.warn(message, fields);
    };
    const record = (result: "ok" | "error", err?: unknown) => {
      metrics.called(call.command, result);
      const elapsedMs = Math.round(performance.now() - startedMs);
      const fields = { command: call.command, ...facts, elapsedMs };
      if (err !== undefined) warn("Call failed", { ...fields, err });
      else if (isLogged("info", options)) log.info("Finished call", fields);
    };
    try {
      const stdout = await this.#locked(call, signal, {
        note: (decided) => Object.assign(facts, decided),
        warn,
      });
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
    records: Pick<Outside, "note" | "warn">,
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
      probes: countedProbes(machine.probes, metrics),
      found: (problem) => this.#report(call, problem),
      annotationsOf: (pod) =>
        metrics.phase("annotations", () => this.#annotationsOf(pod, signal)),
      ...records,
    };
    return await metrics.phase("network", () => runCoordinator(outside, call));
  }

  /** The pod's owner can find the machine, or mend the gateway. */
  #report({ request }: PluginCall, problem: NetworkProblem): void {
    const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = request.args;
    const { K8S_POD_UID: uid } = request.args;
    if (!namespace || !name) return;
    this.#with.events.record({ namespace, name, uid: uid || undefined }, {
      ...eventOf(problem, request.ifname),
      annotations: { [CONTAINER_ID_ANNOTATION]: request.containerId },
    });
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

function eventOf(problem: NetworkProblem, ifname: string): EventInfo {
  const type = "Warning";
  if (problem.kind === "conflict") {
    const { address, mac } = problem;
    return {
      type,
      reason: "AddressConflict",
      message:
        `Cannot use address "${address}" on interface "${ifname}": the machine with MAC address "${mac}" has it; take it out of the pods' address range, or find the machine`,
    };
  }
  return {
    type,
    reason: "GatewayUnreachable",
    message:
      `Cannot start the pod: gateway "${problem.gateway}" does not answer interface "${ifname}"; repair it, or leave detectGateway off if it never answers ARP or neighbour discovery`,
  };
}

function isUnknown(error: unknown): boolean {
  return error instanceof PodNotFoundError || error instanceof NotReadyError ||
    isUnanswered(error);
}
