import type { Loops } from "../../../lib/async/mod.ts";
import type { Address, DualStack } from "../../../lib/inet/mod.ts";
import type { AddressFinding } from "../base/errors.ts";
import type {
  NodeIpam,
  NodeIpamOptions,
  RestingAddress,
} from "../../../lib/ipam/mod.ts";

/** Keeps in the kernel which addresses may not be used again yet. */
export interface RestStore {
  /** Those that rested when an earlier process ended. */
  list(): Promise<readonly RestingAddress[]>;
  /** Lets addresses rest; to be awaited before the pod that has them loses them. */
  begin(addresses: DualStack<Address>): Promise<void>;
}

/** Where the blocks of the node's addresses come from, and how many it keeps. */
export interface Supply {
  /** Options of the node's address management. */
  readonly ipam:
    & Pick<NodeIpamOptions, "source">
    & Partial<
      Pick<
        NodeIpamOptions,
        "stock" | "relistMs" | "rest" | "returnDelayMs" | "onLook"
      >
    >;
  /** The only pool there is; undefined: namespaces name pools. */
  readonly pool?: string;
  /** What a start waits for that has to know the node's blocks, in words for an admin. */
  readonly waitsFor?: string;
  /** Whether others are to know the blocks: routing daemons, and gateways, which look up whose an announced address is. */
  readonly exports: boolean;
  /** Without it, no rest survives the process. */
  readonly rests?: RestStore;
  /** Resolves when it is known which pools there are. */
  readonly synced: Promise<void>;
  /** The loops to run; each ends only by its signal. */
  readonly loops: Loops;
  /** The names of the pools there are, for error messages. */
  poolNames(): string[];
  /** What an admin has to know of an allocation that failed; undefined when its error says it. */
  finding?(error: unknown): AddressFinding | undefined;
  /** Reports changes of blocks and pools to the address management, until disposed. */
  follow(ipam: NodeIpam): Disposable;
}
