import {
  newVpcNode,
  VPC_NODES,
  type VpcNode,
  type VpcNodeStatus,
} from "../../../lib/api/mod.ts";
import {
  type Clock,
  jittered,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import { KubeApiError, type KubeClient } from "../../../lib/kube/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import { isNews, isSame } from "./news.ts";

const log = getLogger("vpc");

/** What changed is written about so often at the most. */
const LOOK_MS = 10_000;
/** Counts of addresses change with every pod: they alone are written about so often. */
const COUNTS_MS = 60_000;
/** Whether the object is still as it was written is looked at so often. */
const READ_MS = 600_000;
const REQUEST_TIMEOUT_MS = 10_000;

export interface VpcNodeKeeperOptions {
  readonly client: Pick<KubeClient, "tryGet" | "create" | "patch">;
  /** The Node as it is; undefined while there is none, or before it was seen. */
  readonly node: () =>
    | { readonly name: string; readonly uid: string }
    | undefined;
  /** What the object is to say, of what it says. */
  readonly status: (before: VpcNode | undefined) => VpcNodeStatus;
  readonly clock?: Clock;
}

/**
 * Keeps the node's VPCNode: makes it, and writes its status when it differs, now and then. Nothing depends on it: a
 * failure is a warning.
 */
export class VpcNodeKeeper {
  readonly #options: VpcNodeKeeperOptions;
  readonly #clock: Clock;
  readonly #failures = new RepeatFilter();
  #object: VpcNode | undefined;
  #readAt = -Infinity;
  #writtenAt = -Infinity;

  constructor(options: VpcNodeKeeperOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Writes until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#keep(signal);
      } catch (err) {
        signal.throwIfAborted();
        this.#object = undefined;
        if (this.#failures.passes(err)) {
          log.warn("Cannot write the VPCNode; retrying", { err });
        }
      }
      await sleep(jittered(LOOK_MS), { signal, clock: this.#clock });
    }
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const node = this.#options.node();
    if (node === undefined) return;
    const before = await this.#read(node, signal);
    const status = this.#options.status(before);
    if (isSame(before.status, status)) return;
    const isDue = this.#clock.nowMs() >= this.#writtenAt + COUNTS_MS;
    if (!isDue && !isNews(before.status, status)) return;
    await this.#write(before, status, signal);
  }

  /** The object as it is known; a new one where there is none of this Node. */
  async #read(
    node: { readonly name: string; readonly uid: string },
    signal: AbortSignal,
  ): Promise<VpcNode> {
    const now = this.#clock.nowMs();
    const isOurs = ({ metadata }: VpcNode) =>
      metadata.ownerReferences?.some(({ uid }) => uid === node.uid) ?? false;
    const known = this.#object;
    // The garbage collector deletes what an earlier Node of this name owned.
    if (known && isOurs(known) && now < this.#readAt + READ_MS) return known;
    const options = { signal, timeoutMs: REQUEST_TIMEOUT_MS };
    const { client } = this.#options;
    const found = await client.tryGet(VPC_NODES, {
      ...options,
      name: node.name,
    });
    this.#readAt = now;
    return this.#object = found ??
      await client.create(VPC_NODES, newVpcNode(node), options);
  }

  async #write(
    { metadata: { name = "" } }: VpcNode,
    status: VpcNodeStatus,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      this.#object = await this.#options.client.patch(
        VPC_NODES,
        { name },
        { status },
        {
          kind: "apply",
          subresource: "status",
          fieldManager: "coild",
          force: true,
          timeoutMs: REQUEST_TIMEOUT_MS,
          signal,
        },
      );
      this.#writtenAt = this.#clock.nowMs();
    } catch (err) {
      const isGone = err instanceof KubeApiError && err.isNotFound;
      if (!isGone) throw err;
      // It is made again when it is looked for.
      this.#object = undefined;
    }
  }
}
