import type { EgressProblem } from "../../../lib/api/mod.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  type KubeClient,
  type V1ClusterRoleBinding,
} from "../../../lib/kube/mod.ts";
import {
  EGRESS_CLUSTER_ROLE_BINDING,
  EGRESS_SERVICE_ACCOUNT,
} from "../../../lib/names/mod.ts";
import { describeError, getLogger } from "../../../lib/telemetry/mod.ts";
import type { EgressCluster } from "./cluster.ts";

const log = getLogger("egress-bindings");

type Subject = NonNullable<V1ClusterRoleBinding["subjects"]>[number];

export interface EgressBindingsOptions {
  readonly client: KubeClient;
  readonly cluster: EgressCluster;
  /** What {@linkcode EgressBindings.problem} says has changed. */
  readonly onProblem: () => void;
}

/**
 * Keeps the subjects of the ClusterRoleBindings through which gateways may
 * check announcements: exactly those of namespaces that have an Egress, so that
 * no gateway keeps the right after the last one is gone.
 *
 * The bindings are part of the installation and are not made here, which
 * would need the right to bind any role.
 */
export class EgressBindings {
  readonly #options: EgressBindingsOptions;
  #problem: EgressProblem | undefined;

  constructor(options: EgressBindingsOptions) {
    this.#options = options;
  }

  /** Why gateways cannot check announcements, if so. */
  get problem(): EgressProblem | undefined {
    return this.#problem;
  }

  /**
   * Brings the binding of the name up to date.
   *
   * @throws {Error} when it is missing and gateways need it
   */
  async reconcile(name: string, signal: AbortSignal): Promise<void> {
    const isNeeded = name === EGRESS_CLUSTER_ROLE_BINDING;
    const { cluster } = this.#options;
    const binding = cluster.clusterRoleBindings.get(name)?.store.get(name);
    if (binding === undefined) {
      if (!isNeeded) return;
      // Without Egresses it is not needed.
      if (cluster.liveEgresses().length === 0) return this.#note(undefined);
      const message =
        `Cannot let gateways check announcements: ClusterRoleBinding "${name}" does not exist; apply Coil's manifests`;
      this.#note({
        reason: "ClusterRoleBindingMissing",
        message,
        isFatal: true,
      });
      throw new Error(message);
    }
    try {
      await this.#update(binding, { name, signal });
    } catch (error) {
      const message = describeError(error);
      const reason = "ClusterRoleBindingRefused";
      if (isNeeded) this.#note({ reason, message, isFatal: true });
      throw error;
    }
    if (isNeeded) this.#note(undefined);
  }

  async #update(
    { metadata, subjects: live = [] }: V1ClusterRoleBinding,
    { name, signal }: { readonly name: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const { client, cluster } = this.#options;
    const subjects = subjectsOf(
      cluster.liveEgresses().map(({ metadata }) => metadata.namespace ?? ""),
    );
    if (textOf(live) === textOf(subjects)) return;
    // Never creates, as server-side apply would; the UID: only the one that was read.
    const target = { name, signal };
    const patch = { metadata: { uid: metadata?.uid }, subjects };
    await client.patch(CLUSTER_ROLE_BINDINGS, target, patch, { kind: "merge" });
    log.info("Updated the namespaces in the gateways' ClusterRoleBinding", {
      binding: name,
      namespaces: subjects.map(({ namespace }) => namespace),
    });
  }

  #note(problem: EgressProblem | undefined): void {
    const hasChanged = problem?.message !== this.#problem?.message;
    this.#problem = problem;
    if (hasChanged) this.#options.onProblem();
  }
}

/** The gateways' service account of each namespace, sorted, each once. */
export function subjectsOf(namespaces: readonly string[]): Subject[] {
  return [...new Set(namespaces)].sort().map((namespace) => ({
    kind: "ServiceAccount",
    name: EGRESS_SERVICE_ACCOUNT,
    namespace,
  }));
}

function textOf(subjects: readonly Subject[]): string {
  return subjects
    .map(({ kind, name, namespace = "" }) => `${kind}/${namespace}/${name}`)
    .join();
}
