import { EGRESS_COMPONENT } from "../../../lib/api/mod.ts";
import {
  type KubeClient,
  ROLE_BINDINGS,
  SERVICE_ACCOUNTS,
} from "../../../lib/kube/mod.ts";
import {
  APP_COMPONENT_LABEL,
  APP_NAME,
  APP_NAME_LABEL,
  EGRESS_GATEWAY_ROLE,
  EGRESS_ROLE_BINDING,
  EGRESS_SERVICE_ACCOUNT,
} from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { EgressApplier } from "./applier.ts";
import type { EgressCluster } from "./cluster.ts";
import { deleteIfThere } from "../base/delete.ts";

const log = getLogger("egress-access");

/** All Egresses of a namespace share them. */
const LABELS = {
  [APP_COMPONENT_LABEL]: EGRESS_COMPONENT,
  [APP_NAME_LABEL]: APP_NAME,
};

export interface EgressAccessOptions {
  readonly client: KubeClient;
  readonly cluster: EgressCluster;
  readonly applier: EgressApplier;
}

/** Who the gateways of a namespace are, and what they may do there. */
export class EgressAccess {
  readonly #with: EgressAccessOptions;

  constructor(options: EgressAccessOptions) {
    this.#with = options;
  }

  /** Makes the service account, and lets it report in the status of the namespace's Egresses. */
  async ensure(
    namespace: string,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    await this.#ensureAccount(namespace, signal);
    const name = EGRESS_ROLE_BINDING;
    const { roleBindings } = this.#with.cluster;
    await this.#with.applier.apply(ROLE_BINDINGS, {
      namespace,
      name,
      plan: {
        metadata: { labels: LABELS },
        roleRef: {
          apiGroup: "rbac.authorization.k8s.io",
          kind: "ClusterRole",
          name: EGRESS_GATEWAY_ROLE,
        },
        subjects: [{
          kind: "ServiceAccount",
          name: EGRESS_SERVICE_ACCOUNT,
          namespace,
        }],
      },
      live: roleBindings.store.get(`${namespace}/${name}`),
      check: () => {},
      signal,
    });
  }

  /** One that is there is left as it is: it may have been given pull secrets. */
  async #ensureAccount(namespace: string, signal: AbortSignal): Promise<void> {
    const name = EGRESS_SERVICE_ACCOUNT;
    if (this.#with.cluster.accounts.store.get(`${namespace}/${name}`)) return;
    await this.#with.client.patch(
      SERVICE_ACCOUNTS,
      { namespace, name, signal },
      { metadata: { labels: LABELS } },
      { kind: "apply", force: true },
    );
  }

  /** Takes the right to report away from a namespace that no longer has an Egress. */
  async reconcile(namespace: string, signal: AbortSignal): Promise<void> {
    if (this.#with.cluster.liveEgresses(namespace).length > 0) return;
    const name = EGRESS_ROLE_BINDING;
    // mutate: only frees memory; what is not there is applied anyway.
    this.#with.applier.forget(ROLE_BINDINGS, { namespace, name });
    const { store } = this.#with.cluster.roleBindings;
    const binding = store.get(`${namespace}/${name}`);
    const labels = binding?.metadata?.labels ?? {};
    const isOurs = Object.entries(LABELS).every(([k, v]) => labels[k] === v);
    if (!isOurs) return;
    const uid = binding?.metadata?.uid;
    const preconditions = { uid };
    const target = { namespace, name, preconditions, signal };
    await deleteIfThere(this.#with.client, ROLE_BINDINGS, target);
    log.info("Namespace no longer has an Egress; deleted its role binding", {
      namespace,
    });
  }
}
