import { ADDRESS_BLOCKS, type AddressBlock } from "../../../lib/api/mod.ts";
import {
  Backoff,
  type Clock,
  forEachConcurrently,
  jittered,
  retry,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import {
  Controller,
  deleteFinalized,
  type KubeClient,
  type KubeMetrics,
  NODES,
  type ReconcileResult,
  type Store,
} from "../../../lib/kube/mod.ts";
import { FINALIZER, NODE_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { IpamMetrics } from "../ipam/metrics.ts";
import type { BlockReports } from "./block_reports.ts";
import { MissingNodes } from "./missing_nodes.ts";

const log = getLogger("gc");

/** Nodes whose blocks are released at the same time. */
const CONCURRENT_NODES = 4;
/** Blocks of one node that are released at the same time. */
const CONCURRENT_BLOCKS = 8;
/** The most blocks named in an Event. */
const NAMED_BLOCKS = 5;

export interface GarbageCollectorOptions {
  readonly client: KubeClient;
  /** All blocks, with the index "node". */
  readonly blocks: Store<AddressBlock>;
  readonly metrics: IpamMetrics;
  readonly kubeMetrics: KubeMetrics;
  readonly reports: Pick<BlockReports, "released" | "releaseFailed">;
  /** How long a node must have been missing: a Node that is deleted by mistake still runs its pods, and may come back. */
  readonly graceMs: number;
  /** Between two looks at everything. */
  readonly intervalMs: number;
  readonly clock?: Clock;
}

/**
 * Releases the blocks of nodes that no longer exist: of those that
 * {@linkcode GarbageCollector.check} names, as at the start, of deleted Nodes,
 * and at an interval of any others. What fails is tried again with growing
 * delays; nothing here ends the process.
 */
export class GarbageCollector {
  readonly #options: GarbageCollectorOptions;
  readonly #controller: Controller;
  readonly #missing: MissingNodes;

  constructor(options: GarbageCollectorOptions) {
    const { clock = systemClock, graceMs } = options;
    this.#options = options;
    this.#missing = new MissingNodes({ clock, graceMs });
    this.#controller = new Controller({
      name: "gc",
      concurrency: CONCURRENT_NODES,
      clock,
      metrics: options.kubeMetrics,
      reconcile: (node, signal) => this.#collect(node, signal),
    });
  }

  /** A Node was deleted: its grace time begins, also when one had begun before. */
  nodeGone(node: string): void {
    this.#missing.gone(node);
    this.check(node);
  }

  /** A Node is there, perhaps again. */
  nodeThere(node: string): void {
    this.#missing.forget(node);
  }

  /** When a node has been missing for the grace time, checks whether it still is, and then its blocks. */
  check(node: string): void {
    const afterMs = this.#missing.graceLeftMs(node);
    this.#controller.enqueue(node, { afterMs });
  }

  /** Releases what {@linkcode GarbageCollector.sweep} and the watch find, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#controller.run(signal);
  }

  /**
   * Sweeps at the interval, until the signal aborts. Not at once: a new
   * leader has asked for the nodes that its caches lack, and need not list
   * all Nodes for that.
   */
  async runSweeps(signal: AbortSignal): Promise<void> {
    const { intervalMs, clock = systemClock } = this.#options;
    while (true) {
      await sleep(jittered(intervalMs), { signal, clock });
      await retry(() => this.sweep(signal), {
        signal,
        backoff: new Backoff({ initialMs: 1000, maxMs: 60_000 }),
        shouldRetry: (error) => {
          if (signal.aborted) return false;
          this.#options.metrics.gcErrors.inc();
          log.error("Cannot list nodes to find orphaned blocks", {
            err: error,
          });
          return true;
        },
      });
    }
  }

  /** Finds the nodes of blocks that are not among the live nodes. */
  async sweep(signal: AbortSignal): Promise<void> {
    // Blocks first: a node that is created after its blocks were read is in
    // the list of nodes, so a new node is never taken for a missing one.
    const holders = new Set<string>();
    const odd: string[] = [];
    for (const { metadata } of this.#options.blocks.list()) {
      const node = metadata.labels?.[NODE_LABEL] ?? "";
      if (node !== "") holders.add(node);
      else {
        // mutate: only a record of the log.
        odd.push(metadata.name ?? "");
      }
    }
    if (odd.length > 0) {
      log.warn("Ignoring blocks without a node", {
        count: odd.length,
        blocks: odd.slice(0, 5),
      });
    }
    const { items } = await this.#options.client.listAll(NODES, {
      metadataOnly: true,
      signal,
    });
    for (const node of items) holders.delete(node.metadata?.name ?? "");
    for (const node of holders) this.check(node);
  }

  async #collect(node: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { blocks, client } = this.#options;
    const orphans = blocks.byIndex("node", node);
    if (orphans.length === 0) return this.#missing.forget(node);
    // It may have come back and gone again since this was put off.
    const requeueAfterMs = this.#missing.graceLeftMs(node);
    if (requeueAfterMs > 0) return { requeueAfterMs };
    const live = await client.tryGet(NODES, {
      name: node,
      metadataOnly: true,
      signal,
    });
    if (live !== undefined) return this.#missing.forget(node);
    await this.#release(node, { orphans, signal });
    this.#missing.forget(node);
  }

  async #release(
    node: string,
    { orphans, signal }: {
      readonly orphans: readonly AddressBlock[];
      readonly signal: AbortSignal;
    },
  ): Promise<void> {
    const { client, metrics, reports } = this.#options;
    log.info("Releasing the blocks of a deleted node", {
      node,
      blocks: orphans.length,
    });
    const failures: unknown[] = [];
    await forEachConcurrently(orphans, CONCURRENT_BLOCKS, async (block) => {
      try {
        await deleteFinalized(client, ADDRESS_BLOCKS, {
          object: block,
          finalizer: FINALIZER,
          signal,
        });
        metrics.gcReleased.inc();
      } catch (error) {
        signal.throwIfAborted();
        metrics.gcErrors.inc();
        reports.releaseFailed(block, error);
        failures.push(error);
      }
    });
    if (failures.length > 0) {
      throw new Error(
        `Cannot release ${failures.length} of ${orphans.length} blocks of node "${node}"`,
        {
          cause: failures[0],
        },
      );
    }
    reports.released(node, releasedText(orphans));
  }
}

function releasedText(blocks: readonly AddressBlock[]): string {
  const names = blocks.slice(0, NAMED_BLOCKS)
    .map(({ metadata }) => metadata.name).join(", ");
  const rest = blocks.length - NAMED_BLOCKS;
  const more = rest > 0 ? ` and ${rest} more` : "";
  const count = blocks.length === 1
    ? "1 block was"
    : `${blocks.length} blocks were`;
  return `The Node is gone; ${count} released: ${names}${more}`;
}
