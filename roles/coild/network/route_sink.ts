import type { Prefix } from "../../../lib/inet/mod.ts";
import type { RouteSink } from "../../../lib/ipam/mod.ts";
import type { RouteExporter } from "../../../lib/routing/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("route-exporter");

/** Exports the node's blocks, and makes one error of the routes that the kernel refused. */
export class ExportTable implements RouteSink {
  readonly #exporter: RouteExporter;
  readonly #onRestored: () => void;
  #restored = 0;
  /** What the table held after the last synchronisation. */
  #last: ReadonlySet<string> | undefined;

  /** `onRestored` is called when routes had been removed by another program. */
  constructor(exporter: RouteExporter, onRestored: () => void) {
    this.#exporter = exporter;
    this.#onRestored = onRestored;
  }

  /** How often routes had been removed by another program. */
  get restored(): number {
    return this.#restored;
  }

  /** Makes the export table hold exactly these prefixes. */
  async sync(prefixes: readonly Prefix[]): Promise<void> {
    const { failures, added, removed, foreign } = await this.#exporter.sync(
      prefixes,
    );
    if (added + removed > 0) {
      log.info("Changed the export table", {
        added,
        removed,
        foreign: foreign.length,
      });
    }
    const last = this.#last;
    const isNew = (prefix: Prefix) => !last?.has(prefix.toString());
    if (last !== undefined && added > prefixes.filter(isNew).length) {
      this.#restored++;
      this.#onRestored();
    }
    const [first] = failures;
    this.#last = first === undefined
      ? new Set(prefixes.map(String))
      : undefined;
    if (first === undefined) return;
    throw new Error(
      `Cannot export route "${first.destination}" (${failures.length} refused)`,
      { cause: first.error },
    );
  }
}
