import { type Clock, systemClock, TaskGroup } from "../../async/mod.ts";
import type { Address, DualStack } from "../../inet/mod.ts";
import type {
  BlockSource,
  IpamObserver,
  Rest,
  RouteSink,
  RouteView,
  Stock,
} from "../base/ports.ts";
import { AddressTable } from "../table/address_table.ts";
import { BlockSupply } from "./block_supply.ts";
import { DEFAULT_WATER_MARKS, waterStock } from "./stock.ts";

/** Options of `NodeIpam`. */
export interface NodeIpamOptions {
  readonly source: BlockSource;
  readonly routes: RouteSink;
  /** Asked before a block is given back; without it, only the table is. */
  readonly kernel?: RouteView;
  readonly clock?: Clock;
  readonly observer?: IpamObserver;
  /** How long one allocation may wait. Default 10 s, as upstream. */
  readonly requestTimeoutMs?: number;
  /** How long one request for a block may take; it outlives the allocations that wait for it. Default 60 s. */
  readonly blockTimeoutMs?: number;
  /** How much room is kept in store. Default: between the default water marks. */
  readonly stock?: Stock;
  /** How long a freed address rests before it is given again. Default 0. */
  readonly cooldownMs?: number;
  /** Whether addresses that rest are given when there are no others. Default: preferred, so they are. */
  readonly rest?: Rest;
  /** Called with the addresses of an attachment that is gone. Must not throw. */
  readonly onFreed?: (addresses: DualStack<Address>) => void;
  /**
   * How long a block must have been empty before it is given back, half to one and a half times this; no longer than
   * 30 s while the pool is low. Default 30 s.
   */
  readonly returnDelayMs?: number;
  /** The same while the pool is ample; not less. Default: no other. */
  readonly ampleReturnDelayMs?: number;
  /** A number from 0 to below 1 for the name of a block, by which times are spread. Default 0.5 for all. */
  readonly jitterOf?: (block: string) => number;
  /**
   * About how often `NodeIpam.reconcile()` lists blocks; at each time without it. What is seen of single blocks in
   * between leads to a list at once where it contradicts what is known.
   */
  readonly relistMs?: number;
  /** An attachment that the kernel lacks is not freed before it is this old. Default 5 min. */
  readonly graceMs?: number;
  /** The kernel must lack it in two reconciliations at least this far apart. Default 30 s. */
  readonly confirmMs?: number;
  /**
   * Puts off the look at the blocks that follows an allocation, so that its caller goes on first. Default: to the end of
   * the turn.
   */
  readonly putOff?: (look: () => void) => void;
  /** Called after each look at the blocks, which follows all that happens to addresses. Must not throw. */
  readonly onLook?: () => void;
  /**
   * Whether an ADD or DEL of a key (`<container ID>:<interface>`) is under way: asked right before its addresses would
   * be freed since the kernel lacks it. Default: none ever is.
   */
  readonly isBusy?: (key: string) => boolean;
}

/** The options with nothing left open but the kernel, which may be absent. */
export type Settings =
  & Required<Omit<NodeIpamOptions, "kernel">>
  & Pick<NodeIpamOptions, "kernel">;

/** What the parts of a node's address management share. */
export interface NodeContext extends Settings {
  readonly table: AddressTable;
  readonly supply: BlockSupply;
  /** The work in the background, which ends with the address management. */
  readonly tasks: TaskGroup;
}

const DEFAULTS = {
  clock: systemClock,
  observer: {},
  requestTimeoutMs: 10_000,
  blockTimeoutMs: 60_000,
  stock: waterStock(DEFAULT_WATER_MARKS),
  cooldownMs: 0,
  rest: "preferred",
  onFreed: () => {},
  returnDelayMs: 30_000,
  jitterOf: () => 0.5,
  relistMs: 0,
  graceMs: 300_000,
  confirmMs: 30_000,
  putOff: queueMicrotask,
  onLook: () => {},
  isBusy: () => false,
} satisfies Partial<NodeIpamOptions>;

/** Fills in the defaults. */
export function settingsOf(options: NodeIpamOptions): Settings {
  const given = { ...DEFAULTS, ...options };
  return { ampleReturnDelayMs: given.returnDelayMs, ...given };
}

/** Makes what the parts share. */
export function contextOf(options: NodeIpamOptions): NodeContext {
  const settings = settingsOf(options);
  const { clock, source } = settings;
  const table = new AddressTable({
    ...settings,
    reservedOf: (pool) => source.reserved(pool),
  });
  const supply = new BlockSupply(table, clock);
  return { ...settings, table, supply, tasks: new TaskGroup() };
}
