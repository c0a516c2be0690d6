import { TaskGroup } from "../../../lib/async/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { KernelSync } from "../kernel/kernel_sync.ts";
import {
  drain,
  type DrainOptions,
  isOwnPodDeleted,
  type OwnPodQuery,
} from "./drain.ts";

const log = getLogger("drain");

/** How a gateway ends. */
export interface EndOptions extends Omit<DrainOptions, "signal"> {
  readonly ownPod: Omit<OwnPodQuery, "signal">;
  /** Called when it is clear that the pod ends. */
  readonly onDraining: () => void;
}

type SyncState = Pick<KernelSync, "hasSynced" | "isFailing">;

/**
 * The phase of the gateway's life; see
 * docs/decisions/0006-draining-gateways.md.
 */
export class Lifecycle {
  readonly #sync: SyncState;
  #phase: "serving" | "ending" | "draining" | "restarting" = "serving";

  constructor(sync: SyncState) {
    this.#sync = sync;
  }

  /** Whether it serves established flows only. */
  get isDraining(): boolean {
    return this.#phase === "draining";
  }

  /** Why no client can be announced now. */
  get closedBecause(): string | undefined {
    if (this.#phase !== "serving") return "the gateway is stopping";
    return this.#sync.hasSynced ? undefined : "the gateway is not ready yet";
  }

  /**
   * The check of /readyz. While the kernel refuses, packets might leave with
   * their client's address: no proxy shall send any here, also while draining.
   */
  check(): true | string {
    const { hasSynced, isFailing } = this.#sync;
    if (!hasSynced) return "the clients are not in the kernel yet";
    if (isFailing) return "the kernel rejects the gateway's configuration";
    return this.#phase !== "restarting" || "the container is stopping";
  }

  /** Returns when the gateway may end: at once when only its container does, which leaves the kernel as it is. */
  async end(signal: AbortSignal, options: EndOptions): Promise<void> {
    this.#phase = "ending";
    await using tasks = new TaskGroup({ signal });
    tasks.run("drain", async (signal) => {
      await drain({ ...options, signal });
      tasks.abort();
    });
    tasks.run("own pod", async (signal) => {
      if (await isOwnPodDeleted({ ...options.ownPod, signal })) {
        this.#phase = "draining";
        options.onDraining();
        return;
      }
      this.#phase = "restarting";
      log.info(
        "The pod is not being deleted: keeping the kernel's state for the next start",
      );
      tasks.abort();
    });
    await tasks.wait();
  }
}
