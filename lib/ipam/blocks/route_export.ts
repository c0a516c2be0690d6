import { abortable, Backoff, FreshRun } from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { NodeContext } from "./context.ts";

const log = getLogger("node-ipam");

/** Keeps the export table as it should be: requests are joined, failures are tried again. */
export class RouteExport {
  readonly #context: NodeContext;
  readonly #runs = new FreshRun(() => this.#attempt());
  readonly #backoff = new Backoff({ initialMs: 500, maxMs: 30_000 });
  #retry: Disposable | undefined;

  constructor(context: NodeContext) {
    this.#context = context;
  }

  /** Makes the table follow, in the background. */
  request(): void {
    this.#context.tasks.run("route export", async (signal) => {
      await abortable(this.flush(), signal);
    });
  }

  /** Resolves when the table holds what was wanted at the time of the call, or later: false when that failed. */
  flush(): Promise<boolean> {
    return this.#runs.do();
  }

  async #attempt(): Promise<boolean> {
    const { routes, table, clock, tasks } = this.#context;
    this.#retry?.[Symbol.dispose]();
    this.#retry = undefined;
    try {
      await routes.sync(table.exportedPrefixes());
      this.#backoff.reset();
      return true;
    } catch (err) {
      log.warn("Cannot write the export table; retrying", { err });
      if (!tasks.signal.aborted) {
        this.#retry = clock.after(
          this.#backoff.nextMs(),
          () => this.request(),
        );
      }
      return false;
    }
  }

  /** Ends the wait for another attempt. */
  close(): void {
    this.#retry?.[Symbol.dispose]();
  }
}
