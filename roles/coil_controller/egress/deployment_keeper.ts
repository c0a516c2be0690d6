import type { Egress } from "../../../lib/api/mod.ts";
import { DEPLOYMENTS, type KubeClient } from "../../../lib/kube/mod.ts";
import {
  EGRESS_CONTAINER,
  type NamespacedName,
} from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { EgressApplier } from "./applier.ts";
import type { EgressCluster } from "./cluster.ts";
import { type DeploymentPlan, planDeployment } from "../gateway/deployment.ts";
import type { EgressImage } from "../gateway/image.ts";
import type { GatewaySettings } from "../gateway/plan.ts";
import { ownerCheck, targetOf } from "../gateway/problems.ts";
import {
  type OwnedDeployment,
  transformDeployment,
} from "../gateway/transform.ts";

const log = getLogger("egress-reconciler");

export interface DeploymentKeeperOptions {
  readonly client: KubeClient;
  readonly cluster: EgressCluster;
  readonly applier: EgressApplier;
  readonly image: EgressImage;
  readonly settings: GatewaySettings;
  readonly onCreated: (egress: Egress) => void;
}

/** Keeps the Deployments of Egresses. */
export class DeploymentKeeper {
  readonly #options: DeploymentKeeperOptions;

  constructor(options: DeploymentKeeperOptions) {
    this.#options = options;
  }

  /**
   * Makes the Deployment what the Egress wants, and returns it.
   *
   * @throws {InvalidTemplateError} when no plan can be made of the template
   * @throws {UnknownImageError} when no image is configured for the gateways
   * @throws {NameTakenError} when a Deployment of the name belongs to another owner
   */
  async keep(
    egress: Egress,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<OwnedDeployment | undefined> {
    const { cluster, applier, image, settings, onCreated } = this.#options;
    const target = targetOf(egress);
    const plan = planDeployment(egress, {
      settings,
      image: namesImage(egress) ? "" : await image.get(signal),
    });
    const live = cluster.deployments.store.get(
      `${target.namespace}/${target.name}`,
    );
    const { object, isNew } = await applier.apply(DEPLOYMENTS, {
      ...target,
      plan,
      live,
      check: ownerCheck(egress, "Deployment"),
      signal,
    });
    if (isNew) onCreated(egress);
    if (object === undefined) return live;
    return await this.#removeForeignLabels(egress, {
      plan,
      deployment: transformDeployment(object),
      signal,
    });
  }

  /** Forgets the Deployment of an Egress that is gone. */
  forget(target: NamespacedName): void {
    this.#options.applier.forget(DEPLOYMENTS, target);
  }

  /**
   * Labels of pods decide which policies and Services take them, so those that
   * others put on the pods' template go, unlike annotations, by which a
   * restart is asked for.
   */
  async #removeForeignLabels(
    egress: Egress,
    { plan, deployment, signal }: {
      readonly plan: DeploymentPlan;
      readonly deployment: OwnedDeployment;
      readonly signal: AbortSignal;
    },
  ): Promise<OwnedDeployment> {
    const wanted = plan.spec.template.metadata.labels;
    const foreign = Object.keys(deployment.podLabels ?? {})
      .filter((label) => !Object.hasOwn(wanted, label));
    if (foreign.length === 0) return deployment;
    const target = targetOf(egress);
    const labels = Object.fromEntries(foreign.map((label) => [label, null]));
    const patch = {
      metadata: { resourceVersion: deployment.metadata?.resourceVersion },
      spec: { template: { metadata: { labels } } },
    };
    const { client, applier } = this.#options;
    const object = await client.patch(
      DEPLOYMENTS,
      { ...target, signal },
      patch,
      { kind: "merge" },
    );
    applier.learn(DEPLOYMENTS, { ...target, plan, object });
    log.info("Removed labels that others put on the pods of an Egress", {
      ...target,
      labels: foreign,
    });
    return transformDeployment(object);
  }
}

function namesImage({ spec }: Egress): boolean {
  const containers = spec.template?.spec?.containers ?? [];
  return containers.some(({ name, image }) =>
    name === EGRESS_CONTAINER && Boolean(image)
  );
}
