import { jittered, SingleFlight, sleep } from "../../../lib/async/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { FlowSummary, ServerCounters } from "../../../lib/egress/mod.ts";
import type { ConntrackCount } from "../../../lib/netlink/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { DataPlane } from "../base/ports.ts";

const log = getLogger("metrics");

/** Going through a full table of connections takes a while, so not at every scrape. */
const INTERVAL_MS = 10_000;

/** What is read of the kernel. */
export type ReadingName =
  | "counters"
  | "flows"
  | "conntrack"
  | "limited"
  | "nodes";

export interface ReadingsOptions {
  readonly kernel: Pick<
    DataPlane,
    | "readCounters"
    | "readFlows"
    | "readConntrack"
    | "readLimited"
    | "readNodes"
  >;
  /** Called when a reading failed. */
  readonly onFailure?: (name: ReadingName) => void;
}

/**
 * The newest readings of the kernel. One that fails is absent until it works
 * again; the others are not affected.
 */
export class Readings {
  readonly #with: ReadingsOptions;
  readonly #flight = new SingleFlight<void>();
  readonly #failing = new Set<ReadingName>();
  #counters: ServerCounters | undefined;
  #flows: FlowSummary | undefined;
  #conntrack: ConntrackCount | undefined;
  #limited: readonly Address[] | undefined;
  #nodes: number | undefined;

  constructor(options: ReadingsOptions) {
    this.#with = options;
  }

  /** What the rules have counted. */
  get counters(): ServerCounters | undefined {
    return this.#counters;
  }

  /** What goes through the gateway. */
  get flows(): FlowSummary | undefined {
    return this.#flows;
  }

  /** How full the table of connections is. */
  get conntrack(): ConntrackCount | undefined {
    return this.#conntrack;
  }

  /** The clients that were refused a connection within the last minutes. */
  get limited(): readonly Address[] | undefined {
    return this.#limited;
  }

  /** How many nodes have probed the gateway within the last minute. */
  get nodes(): number | undefined {
    return this.#nodes;
  }

  /** Reads what costs little; once for all who ask at the same time. */
  async readCheap(): Promise<void> {
    const { kernel } = this.#with;
    await this.#flight.do("cheap", async () => {
      [this.#counters, this.#conntrack, this.#limited] = await Promise.all([
        this.#try("counters", () => kernel.readCounters()),
        this.#try("conntrack", () => kernel.readConntrack()),
        this.#try("limited", () => kernel.readLimited()),
      ]);
    });
  }

  /** Reads which flows there are, and how many nodes probe. */
  async readFlows(): Promise<void> {
    const { kernel } = this.#with;
    this.#flows = await this.#try("flows", () => kernel.readFlows());
    this.#nodes = await this.#try("nodes", () => kernel.readNodes());
  }

  /** Reads the flows at once and from time to time until the signal; `onRead` is called each time. */
  async run(signal: AbortSignal, onRead: () => void): Promise<void> {
    for (;;) {
      await this.readFlows();
      await this.readCheap();
      onRead();
      await sleep(jittered(INTERVAL_MS), { signal });
    }
  }

  async #try<T>(
    name: ReadingName,
    read: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      const value = await read();
      if (this.#failing.delete(name)) {
        log.info("Reading succeeds again", { name });
      }
      return value;
    } catch (err) {
      if (!this.#failing.has(name)) {
        log.error("Cannot read the kernel's counters", { name, err });
      }
      this.#failing.add(name);
      this.#with.onFailure?.(name);
      return undefined;
    }
  }
}
