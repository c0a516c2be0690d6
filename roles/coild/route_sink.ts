import type { Prefix } from "../../lib/inet/mod.ts";
import type { RouteSink } from "../../lib/ipam/mod.ts";
import type { RouteExporter } from "../../lib/routing/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";

const log = getLogger("route-exporter");

/** Exports the node's blocks, and makes one error of the routes that the kernel refused. */
export class ExportTable implements RouteSink {
  readonly #exporter: RouteExporter;

  constructor(exporter: RouteExporter) {
    this.#exporter = exporter;
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
    const [first] = failures;
    if (first === undefined) return;
    throw new Error(
      `Cannot export route "${first.destination}" (${failures.length} refused)`,
      { cause: first.error },
    );
  }
}
