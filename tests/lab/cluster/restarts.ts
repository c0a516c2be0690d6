import { abortable, sleep } from "../../../lib/async/mod.ts";
import { childrenOf, type LabProcess, sendSignal } from "../process.ts";

/** Starts a program again whenever it ends by itself, as an init system does. */
export class Restarts {
  readonly #over = new AbortController();
  readonly #ended: Promise<void>;

  /** `again` starts it; undefined where that has become pointless. */
  constructor(
    first: LabProcess,
    again: () => Promise<LabProcess | undefined>,
  ) {
    this.#ended = this.#run(first, again);
  }

  async #run(
    process: LabProcess | undefined,
    again: () => Promise<LabProcess | undefined>,
  ): Promise<void> {
    const { signal } = this.#over;
    try {
      while (process !== undefined) {
        await abortable(process.exited, signal);
        await sleep(500, { signal });
        process = await again();
      }
    } catch {
      // It is over, or the node went while the program was started.
    }
  }

  /** Starts it no more; when this returns, the program that was started last is the last one. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#ended;
  }
}

/**
 * Sends a signal to the program that a process of nsenter has started, once, and waits for its end. nsenter hands no
 * signals on, and may not have started it yet.
 */
export async function endChildren(
  parent: LabProcess,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  const signalled = new Set<number>();
  const ended = new AbortController();
  void parent.exited.then(() => ended.abort());
  while (parent.isRunning) {
    for (const pid of await childrenOf(parent.pid)) {
      if (!signalled.has(pid)) sendSignal(pid, signal);
      signalled.add(pid);
    }
    await sleep(100, { signal: ended.signal }).catch(() => {});
  }
}
