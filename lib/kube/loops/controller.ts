import { systemClock, TaskGroup } from "../../async/mod.ts";
import { getLogger, type Logger } from "../../telemetry/mod.ts";
import { KubeApiError, TerminalError } from "../http/errors.ts";
import type { KubeMetrics } from "./metrics.ts";
import { WorkQueue, type WorkQueueOptions } from "./work_queue.ts";

/** Result of a successful reconciliation: done, or to be called again. */
export type ReconcileResult = void | { readonly requeueAfterMs: number };

export interface ControllerOptions extends WorkQueueOptions {
  /** For logs and metrics. */
  readonly name: string;
  /** Reconciles the key, from the current state alone. */
  readonly reconcile: (
    key: string,
    signal: AbortSignal,
  ) => Promise<ReconcileResult>;
  /** How many keys are worked on at once. Default 1. */
  readonly concurrency?: number;
  readonly metrics?: KubeMetrics | undefined;
}

/**
 * Calls a reconciler for keys: never twice at once for one key, and again after each failure, for ever, with growing
 * delays; only a {@link TerminalError} is logged and left. A conflict is retried like other failures, but logged at a lower level.
 */
export class Controller {
  readonly name: string;
  readonly #options: ControllerOptions;
  readonly #queue: WorkQueue;
  readonly #log: Logger;

  constructor(options: ControllerOptions) {
    this.name = options.name;
    this.#options = options;
    this.#log = getLogger(options.name);
    const { clock = systemClock } = options;
    const observer = options.metrics?.watchQueue(options.name, {
      depth: () => this.#queue.size,
      concurrency: options.concurrency ?? 1,
      nowMs: () => clock.nowMs(),
    });
    this.#queue = new WorkQueue({ ...options, observer });
  }

  /** How many keys wait. */
  get pending(): number {
    return this.#queue.size;
  }

  /** Asks for a key to be worked on. */
  enqueue(key: string, options: { afterMs?: number } = {}): void {
    this.#queue.addAfter(key, options.afterMs ?? 0);
  }

  /** Works until the signal aborts, and returns when the reconcilers under way have ended. */
  async run(signal: AbortSignal): Promise<void> {
    await using group = new TaskGroup({ signal });
    for (let n = 0; n < (this.#options.concurrency ?? 1); n++) {
      group.run(`${this.name} worker ${n}`, (s) => this.#work(s));
    }
    await group.wait();
    this.#queue[Symbol.dispose]();
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (;;) {
      const key = await this.#queue.next({ signal });
      try {
        await this.#reconcile(key, signal);
      } finally {
        this.#queue.done(key);
      }
    }
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<void> {
    const { metrics } = this.#options;
    const startMs = performance.now();
    const report = (result: string) =>
      metrics?.reconciled(this.name, {
        result,
        ms: performance.now() - startMs,
      });
    metrics?.activeWorkers.inc({ controller: this.name });
    try {
      const result = await this.#options.reconcile(key, signal);
      this.#queue.forget(key);
      if (result === undefined) return report("success");
      this.#queue.addAfter(key, result.requeueAfterMs);
      report("requeue_after");
    } catch (err) {
      if (signal.aborted) return;
      report("error");
      this.#handleFailure(key, err);
    } finally {
      metrics?.activeWorkers.dec({ controller: this.name });
    }
  }

  #handleFailure(key: string, err: unknown): void {
    if (err instanceof TerminalError) {
      this.#queue.forget(key);
      this.#options.metrics?.terminalErrors.inc({ controller: this.name });
      this.#log.error("Cannot reconcile; a retry would not help", {
        key,
        err,
      });
      return;
    }
    this.#options.metrics?.retried(this.name);
    const retryMs = Math.round(this.#queue.retry(key));
    const fields = { key, retryMs, err };
    const isConflict = err instanceof KubeApiError && err.isConflict;
    if (isConflict) this.#log.debug("Lost a race; retrying", fields);
    else this.#log.warn("Cannot reconcile; retrying", fields);
  }
}
