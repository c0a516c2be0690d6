import type {
  AppliedLimits,
  FlowSummary,
  ServerCounters,
} from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type {
  ConntrackCount,
  Listener,
  TableNotification,
} from "../../../lib/netlink/mod.ts";

/** The kernel's half of a gateway, whose clients this daemon decides on. */
export interface DataPlane extends Disposable {
  /** Makes these the clients in place of those before, and repairs all that makes a gateway. */
  setClients(addresses: readonly Address[]): Promise<void>;
  /** Adds and removes clients in one transaction. */
  changeClients(
    change: {
      readonly add: readonly Address[];
      readonly remove: readonly Address[];
    },
  ): Promise<void>;
  /** Reads what the rules have counted. */
  readCounters(): Promise<ServerCounters>;
  /** Goes through the table of connections. */
  readFlows(): Promise<FlowSummary>;
  /** Reads how full the table of connections is. */
  readConntrack(): Promise<ConntrackCount>;
  /** Reads the clients that were refused a connection within the last minutes. */
  readLimited(): Promise<readonly Address[]>;
  /** Reads how many nodes have probed the gateway within the last minute. */
  readNodes(): Promise<number>;
  /** What each client may have at a time. */
  readonly limits: AppliedLimits;
  /** How to see what others do to it; absent where there is nothing to see. */
  readonly upkeep?: PlaneUpkeep;
}

/** What others do to the kernel's half. */
export interface PlaneUpkeep {
  /** What of it is missing, in words; with `table` also what is in the table of nftables. `setClients()` puts it back. */
  findDamage(
    options: { readonly table: boolean },
  ): Promise<readonly string[]>;
  /** Listens to what others change in links, rules and routes. */
  watch(): Listener;
  /** Listens to what others do to the table of nftables. */
  watchTable(): Listener<TableNotification>;
}
