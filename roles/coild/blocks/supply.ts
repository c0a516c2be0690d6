import type { NodeIpam, NodeIpamOptions } from "../../../lib/ipam/mod.ts";

/** Where the blocks of the node's addresses come from, and how many it keeps. */
export interface Supply {
  /** Options of the node's address management. */
  readonly ipam: Pick<NodeIpamOptions, "source" | "stock" | "relistMs">;
  /** Resolves when it is known which pools there are. */
  readonly synced: Promise<void>;
  /** The loops to run; each ends only by its signal. */
  readonly loops: Readonly<
    Record<string, (signal: AbortSignal) => Promise<void>>
  >;
  /** The names of the pools there are, for error messages. */
  poolNames(): string[];
  /** Reports changes of blocks and pools to the address management, until disposed. */
  follow(ipam: NodeIpam): Disposable;
}
