import type { AppliedLimits } from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { DataPlane } from "../base/ports.ts";
import type { Readings } from "./readings.ts";

const log = getLogger("limits");

export interface LimitedClientsOptions {
  readonly kernel: Pick<DataPlane, "limits">;
  readonly readings: Pick<Readings, "limited">;
  readonly pods: () => Iterable<ClientPod>;
}

/** The clients that had as many connections as they may, and wanted more; by name. */
export class LimitedClients {
  readonly #options: LimitedClientsOptions;
  #reported: ReadonlySet<string> = new Set();
  #isSupported = true;

  constructor(options: LimitedClientsOptions) {
    this.#options = options;
  }

  /** What each client may have. */
  get limits(): AppliedLimits {
    return this.#options.kernel.limits;
  }

  /** Their names, `namespace/name` in order; of a pod that is not known, its address. */
  names(): string[] {
    const { readings, pods } = this.#options;
    const names = namesOf(pods(), readings.limited ?? []);
    return [...new Set(names.values())].sort();
  }

  /** The name of any client; of a pod that is not known, its address. */
  nameOf(client: Address): string {
    return namesOf(this.#options.pods(), [client]).get(client) ?? "";
  }

  /** Logs clients that have newly reached their limit, and whether there are limits at all. */
  report(): void {
    const { isSupported, flows, flowsToOneAddress } = this.limits;
    if (!isSupported && this.#isSupported) {
      log.warn(
        "Cannot limit the connections of each client: the kernel lacks nft_connlimit or nft_limit; one client can use the whole connection table. Load the modules on the node (CONFIG_NFT_CONNLIMIT, CONFIG_NFT_LIMIT)",
      );
    }
    this.#isSupported = isSupported;
    const names = this.names();
    for (const client of names) {
      if (this.#reported.has(client)) continue;
      log.warn(
        "A client has reached its connection limit; further connections are dropped. To raise it, set spec.maxFlowsPerClient of the Egress",
        { client, flows, flowsToOneAddress },
      );
    }
    this.#reported = new Set(names);
  }
}

/** The names of the pods that have these addresses; of a pod that is not known, its address. */
export function namesOf(
  pods: Iterable<ClientPod>,
  addresses: readonly Address[],
): Map<Address, string> {
  const byAddress = new Map<string, string>();
  if (addresses.length > 0) {
    for (const pod of pods) {
      for (const address of pod.addresses) {
        byAddress.set(address.toString(), nameText(pod));
      }
    }
  }
  return new Map(addresses.map((address) => {
    const text = address.toString();
    return [address, byAddress.get(text) ?? text];
  }));
}
