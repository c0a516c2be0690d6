import type {
  AnnounceClient,
  AnnounceTarget,
} from "../../../lib/announce/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { CallOptions } from "../calls/attachments.ts";
import { nameText } from "../../../lib/names/mod.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { Addressed } from "../calls/attachment.ts";

const log = getLogger("egress");

/** How loud it is said: a gateway that is away is not news. */
const LEVELS = {
  refused: "warn",
  late: "warn",
  failed: "debug",
  deaf: "debug",
  "no-token": "debug",
} as const;

/** Announces new clients to gateways, counts and logs the results. */
export class Announcer {
  readonly #client: AnnounceClient;
  readonly #metrics: Pick<CoildMetrics, "announced">;

  constructor(
    client: AnnounceClient,
    metrics: Pick<CoildMetrics, "announced">,
  ) {
    this.#client = client;
    this.#metrics = metrics;
  }

  /** Takes no longer than the client's time limit. Never throws: gateways find new clients by themselves, later. */
  async announce(
    { addresses, block, pod, uid }: Addressed,
    targets: readonly AnnounceTarget[],
    { signal }: CallOptions,
  ): Promise<void> {
    // A gateway believes nothing about a pod without UID or addresses of no block.
    if (uid === undefined || block === undefined) return;
    if (valuesOf(addresses).length === 0) return;
    const { namespace, name } = pod;
    const outcomes = await this.#client.announce({
      pod: { namespace, name, uid },
      addresses: valuesOf(addresses),
      block,
      targets,
    }, { signal });
    if (signal.aborted) return;
    for (const { egress, address, result, reason } of outcomes) {
      this.#metrics.announced(result);
      if (result !== "accepted") {
        log[LEVELS[result]]("Cannot announce a new client to a gateway", {
          egress: nameText(egress),
          client: nameText(pod),
          gateway: address.toString(),
          result,
          reason,
        });
      }
    }
  }
}
