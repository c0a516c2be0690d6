import { Gate, jittered, sleep } from "../../../lib/async/mod.ts";
import { type Address, FAMILIES } from "../../../lib/inet/mod.ts";
import { LinuxError } from "../../../lib/linux/mod.ts";
import {
  type ConntrackFilter,
  type ConntrackFlow,
  ConntrackSocket,
  NetlinkError,
} from "../../../lib/netlink/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("pod-network");

/**
 * Freed addresses wait for about this long for others, since each look goes
 * through all connections of the node. Cooling takes longer by default, so
 * that it is done before another pod gets an address.
 */
const TOGETHER_MS = 10_000;

/** The kernel picks the connections of one address five times as fast as all are read; of more addresses, all are. */
const MAX_FILTERED = 4;

/** The kernel's connections. */
export type Conntrack = Pick<ConntrackSocket, "deleteWhere"> & AsyncDisposable;

export interface StaleFlowsOptions {
  /** Whether no pod has the address. */
  readonly isFree: (address: Address) => boolean;
  /** Opens a socket in the node's network namespace. */
  readonly open?: () => Conntrack;
  /** How long freed addresses wait for others. */
  readonly togetherMs?: number;
}

/**
 * Makes the node forget the connections of pods that are gone. The kernel
 * tracks some for days: one of another pod, later, with the same address and
 * ports would be translated as theirs was.
 *
 * Only connections are deleted that were there while no pod had the address,
 * each by its id, so none of the next pod's is ever among them.
 */
export class StaleFlows {
  readonly #options: StaleFlowsOptions;
  readonly #open: () => Conntrack;
  #freed = new Map<bigint, Address>();
  #some = new Gate();
  #isFailing = false;

  constructor(options: StaleFlowsOptions) {
    this.#options = options;
    this.#open = options.open ?? (() => ConntrackSocket.open());
  }

  /** Takes note of addresses that pods no longer have. */
  freed(addresses: readonly Address[]): void {
    for (const address of addresses) this.#freed.set(address.value, address);
    if (this.#freed.size > 0) this.#some.open();
  }

  /** Forgets what there is now and then, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { togetherMs = TOGETHER_MS } = this.#options;
    while (!signal.aborted) {
      await this.#some.wait({ signal });
      await sleep(jittered(togetherMs), { signal });
      await this.forget();
    }
  }

  /** Forgets the connections of the addresses that are still free. What cannot be forgotten is logged, and tried again with the next ones. */
  async forget(): Promise<void> {
    const freed = this.#freed;
    this.#freed = new Map();
    this.#some = new Gate();
    const isStale = ({ value, family }: Address) => {
      const address = freed.get(value);
      return address?.family === family && this.#options.isFree(address);
    };
    const match = ({ originalSource, replySource }: ConntrackFlow) =>
      isStale(originalSource) || isStale(replySource);
    try {
      await using conntrack = this.#open();
      let flows = 0;
      for (const filter of filtersOf([...freed.values()])) {
        flows += await conntrack.deleteWhere(match, filter);
      }
      this.#isFailing = false;
      log.debug("Deleted conntrack entries of freed addresses", {
        addresses: freed.size,
        flows,
      });
    } catch (err) {
      const isKernels = err instanceof NetlinkError ||
        err instanceof LinuxError;
      if (!isKernels) throw err;
      if (!this.#isFailing) {
        log.warn("Cannot delete conntrack entries of freed addresses", { err });
      }
      this.#isFailing = true;
      for (const [value, address] of freed) this.#freed.set(value, address);
    }
  }
}

/** Which connections the kernel is to show. It can pick only those of IPv4. */
function filtersOf(addresses: readonly Address[]): ConntrackFilter[] {
  return FAMILIES.flatMap((family) => {
    const own = addresses.filter((address) => address.family === family);
    if (own.length === 0) return [];
    if (family === "ipv6" || own.length > MAX_FILTERED) return [{ family }];
    return own.flatMap((address): ConntrackFilter[] => [
      { end: { address, role: "opens" } },
      { end: { address, role: "answers" } },
    ]);
  });
}
