import {
  SPIDER_COORDINATORS,
  type SpiderCoordinator,
} from "../../../lib/api/mod.ts";
import { jittered } from "../../../lib/async/mod.ts";
import type {
  EventInfo,
  KubeClient,
  ReconcileResult,
  Store,
} from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { precedes } from "../base/versions.ts";
import { podCidrs, serviceCidrs } from "./cidrs.ts";
import { Lookup } from "./lookup.ts";
import { statusOf, statusText } from "./status.ts";

const log = getLogger("coordinator-reconciler");

/** How often another program may overwrite our status before we leave it to that program. */
const MAX_OVERWRITTEN = 3;

export interface SpiderReconcilerOptions {
  readonly client: KubeClient;
  readonly resources: Pick<Store<SpiderCoordinator>, "get">;
  /** About how often the cluster's networks are looked up. */
  readonly intervalMs: number;
  readonly onEvent: (resource: SpiderCoordinator, event: EventInfo) => void;
}

/** Written status, and how often another program changed it. */
interface Written {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  readonly resourceVersion: string | undefined;
  readonly text: string;
  readonly overwritten: number;
}

/** Keeps the status of a SpiderCoordinator like the cluster's networks. */
export class SpiderReconciler {
  readonly #options: SpiderReconcilerOptions;
  #written: Written | undefined;
  #podCidrType: string | undefined;

  constructor(options: SpiderReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { client, intervalMs, resources } = this.#options;
    const resource = resources.get(name);
    if (resource === undefined) return void (this.#written = undefined);
    this.#reportType(resource);
    if (!this.#isOurs(resource)) return;
    const lookup = new Lookup(client, { signal });
    const status = statusOf({
      services: await serviceCidrs(lookup),
      pods: await podCidrs(lookup, resource.spec?.podCIDRType),
    }, resource.status);
    await this.#write(resource, status, signal);
    return { requeueAfterMs: jittered(intervalMs) };
  }

  /** Spiderpool's own controller writes the same; two that write in turn would never end. */
  #isOurs(resource: SpiderCoordinator): boolean {
    const written = this.#written;
    const { uid, generation, resourceVersion } = resource.metadata;
    if (written === undefined || written.uid !== uid) {
      this.#written = undefined;
      return true;
    }
    if (written.generation !== generation) {
      this.#written = { ...written, generation, overwritten: 0 };
      return true;
    }
    if (written.overwritten >= MAX_OVERWRITTEN) return false;
    // The cache may be behind what we wrote.
    if (precedes(resourceVersion, written.resourceVersion)) return true;
    if (statusText(resource.status) === written.text) return true;
    const overwritten = written.overwritten + 1;
    this.#written = { ...written, overwritten };
    if (overwritten < MAX_OVERWRITTEN) return true;
    log.warn("Leaving the status of SpiderCoordinator to another controller", {
      name: resource.metadata.name,
    });
    this.#options.onEvent(resource, {
      type: "Warning",
      reason: "StatusOfAnotherController",
      message:
        "Another controller, such as Spiderpool's, writes the status; coil-controller leaves it alone until the spec changes. Run only one of them",
    });
    return false;
  }

  async #write(
    resource: SpiderCoordinator,
    status: NonNullable<SpiderCoordinator["status"]>,
    signal: AbortSignal,
  ): Promise<void> {
    const text = statusText(status);
    if (text === statusText(resource.status)) return;
    const { metadata } = await this.#options.client.updateStatus(
      SPIDER_COORDINATORS,
      { ...resource, status: { ...resource.status, ...status } },
      { signal },
    );
    const { uid, generation, resourceVersion } = metadata;
    const overwritten = this.#written?.overwritten ?? 0;
    this.#written = { uid, generation, resourceVersion, text, overwritten };
    const { phase = "", reason = "" } = status;
    log.info("Wrote the status of SpiderCoordinator", { phase, reason });
    if (reason === "" || reason === resource.status?.reason) return;
    this.#options.onEvent(resource, {
      type: "Warning",
      reason: "CIDRsUnknown",
      message: reason,
    });
  }

  #reportType(resource: SpiderCoordinator): void {
    const type = resource.spec?.podCIDRType || "auto";
    const former = this.#podCidrType;
    this.#podCidrType = type;
    if (former === undefined || former === type) return;
    this.#options.onEvent(resource, {
      type: "Normal",
      reason: "PodCIDRTypeChanged",
      message: `Pod CIDR type changed from ${former} to ${type}`,
    });
  }
}
