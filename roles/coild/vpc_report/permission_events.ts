import type { Attempt } from "../../../lib/aws/mod.ts";
import type { NodeEvents } from "../observe/node_events.ts";

/** A call that is refused again within this time makes no Event. */
const AGAIN_MS = 10 * 60_000;

const DENIED_REASON = "MissingPermissions";

export interface PermissionEventsOptions {
  readonly nodeEvents: Pick<NodeEvents, "record">;
  /** Milliseconds that never go back; replaced in tests. */
  readonly now?: () => number;
}

/** Reports by an Event on the Node which right the node's role lacks: pods that wait for no address have none to say it. */
export class PermissionEvents {
  readonly #options: PermissionEventsOptions;
  readonly #now: () => number;
  /** When each call was reported. */
  readonly #at = new Map<string, number>();

  constructor(options: PermissionEventsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Takes a request that has ended. */
  attempted({ call, refusal }: Attempt): void {
    if (!refusal?.isDenied) return;
    const now = this.#now();
    if (now - (this.#at.get(call) ?? -Infinity) < AGAIN_MS) return;
    this.#at.set(call, now);
    this.#options.nodeEvents.record({
      type: "Warning",
      reason: DENIED_REASON,
      message:
        `EC2 denied ${call} (${refusal.code}), so pods on this node may get no addresses; allow ec2:${call} in the policy of the node's role`,
    });
  }
}
