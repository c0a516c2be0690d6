import { Mutex } from "../async/mod.ts";
import type { Prefix } from "../inet/mod.ts";
import { COILD_PROTOCOL, EXPORT_TABLE } from "../names/mod.ts";
import { type RouteKernel, type SyncResult, syncRoutes } from "./apply.ts";

/** LOOPBACK_IFINDEX of the kernel's include/net/flow.h: `lo` is the first link of every network namespace. */
const LOOPBACK_INDEX = 1;

export interface RouteExporterOptions {
  /** Default {@linkcode EXPORT_TABLE}. */
  readonly tableId?: number;
  /** Default {@linkcode COILD_PROTOCOL}. */
  readonly protocolId?: number;
}

/**
 * Shows the node's address blocks to routing daemons: one route `<block> dev lo`
 * each, in a table of its own that no rule looks up. Only routes of our
 * protocol are ever removed.
 */
export class RouteExporter {
  readonly #kernel: RouteKernel;
  readonly #tableId: number;
  readonly #protocolId: number;
  /** Guards the table between listing and changing it. */
  readonly #mutex = new Mutex();

  /** Changes nothing until asked to; the socket stays the caller's. */
  constructor(kernel: RouteKernel, options: RouteExporterOptions = {}) {
    this.#kernel = kernel;
    this.#tableId = options.tableId ?? EXPORT_TABLE;
    this.#protocolId = options.protocolId ?? COILD_PROTOCOL;
  }

  /**
   * Makes the table hold exactly these blocks, given all of them. Idempotent;
   * an empty list clears what is ours.
   *
   * @throws {NetlinkError} when the table cannot be listed
   */
  async sync(prefixes: readonly Prefix[]): Promise<SyncResult> {
    using _lock = await this.#mutex.lock();
    const wanted = new Map(prefixes.map((p) => [p.toString(), undefined]));
    return await syncRoutes(this.#kernel, wanted, {
      table: this.#tableId,
      protocol: this.#protocolId,
      index: LOOPBACK_INDEX,
      isOwnTable: true,
    });
  }
}
