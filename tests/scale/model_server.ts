// An API server that does nothing but count: what it is asked, whom it compares
// each write with, and to whom it sends what.
import type { Reach, WatchKind } from "./patterns.ts";

/**
 * What it costs, in milliseconds of a processor, by `deno task bench --only
 * scale.watches` and `scale.list`.
 */
export const COSTS = {
  /** A write, by itself. */
  write: 1.4,
  /** A GET. */
  get: 0.25,
  /** Opening a watch. */
  watch: 0.7,
  /** A watch that a write is compared with and that does not want it. */
  compared: 0.0016,
  /** An event sent. */
  sent: 0.02,
  /** An object that a list is selected from. */
  looked: 0.0006,
  /** An object in a list's answer. */
  listed: 0.046,
} as const;

/** API Priority and Fairness: so many watchers are a seat, held for so long. */
const WATCHERS_PER_SEAT = 10;
const SEAT_S = 0.005;

const BOOKMARK_BYTES = 200;

/** What is counted in each second. */
export const COUNTS = [
  "requests",
  "compared",
  "sent",
  "bytes",
  "seatS",
  "busyMs",
] as const;
export type Count = typeof COUNTS[number];

interface Watchers {
  everybody: number;
  labelled: number;
  indexed: number;
}

/** Of objects that are written. */
export interface EventInfo {
  /** Of one object. */
  readonly bytes: number;
  /** How many watches by an index or a label want it. */
  readonly wanted?: number;
  readonly times?: number;
}

/** Objects that somebody reads. */
export interface Reading {
  readonly looked: number;
  readonly listed: number;
  /** Of one object. */
  readonly bytes: number;
  readonly times?: number;
}

/** What counts of a watch. */
interface Opened extends Pick<WatchKind, "by"> {
  readonly type: { readonly plural: string };
}

/** Counts by the second. */
export class ModelServer {
  readonly #watchers = new Map<string, Watchers>();
  readonly #seconds: Record<Count, Float64Array>;
  #beginMs = 0;
  #at = 0;

  constructor(seconds: number) {
    const entries = COUNTS.map((c) => [c, new Float64Array(seconds)] as const);
    this.#seconds = Object.fromEntries(entries) as Record<Count, Float64Array>;
  }

  /** Counts for this second of the clock from now on. */
  setTime(ms: number): void {
    this.#at = Math.max(0, Math.floor((ms - this.#beginMs) / 1000));
  }

  /** Forgets what was counted, and counts from this time of the clock on; the watches stay open. */
  begin(ms: number): void {
    this.#beginMs = ms;
    for (const counts of Object.values(this.#seconds)) counts.fill(0);
  }

  /** The counts of each second. */
  counts(count: Count): Float64Array {
    return this.#seconds[count];
  }

  /** How many watches are open. */
  get watches(): number {
    return [...this.#watchers.values()].reduce(
      (sum, w) => sum + w.everybody + w.labelled + w.indexed,
      0,
    );
  }

  /** Opens these watches for so many daemons; closes them when the number is negative. */
  open(kinds: readonly Opened[], daemons: number): void {
    for (const { type, by } of kinds) {
      const watchers = this.#of(type.plural);
      watchers[groupOf(by)] += daemons;
    }
    if (daemons <= 0) return;
    this.#add("requests", kinds.length * daemons);
    this.#add("busyMs", kinds.length * daemons * COSTS.watch);
  }

  /** Coil writes objects of this kind. */
  write(plural: string, event: EventInfo): void {
    const { times = 1 } = event;
    this.#add("requests", times);
    this.#add("busyMs", times * COSTS.write);
    this.#add("seatS", times * this.#seatS(plural, event));
    this.event(plural, event);
  }

  /** Somebody has written objects of this kind; what that costs for our watches. */
  event(plural: string, { bytes, wanted = 0, times = 1 }: EventInfo): void {
    const { everybody, labelled } = this.#of(plural);
    const sent = everybody + wanted;
    this.#add("compared", times * (everybody + labelled));
    this.#add("sent", times * sent);
    this.#add("bytes", times * sent * bytes);
    const busyMs = labelled * COSTS.compared + sent * COSTS.sent;
    this.#add("busyMs", times * busyMs);
  }

  #seatS(plural: string, { wanted = 0 }: EventInfo): number {
    const { everybody, labelled } = this.#of(plural);
    return (everybody + labelled + wanted) / WATCHERS_PER_SEAT * SEAT_S;
  }

  /** Reads of one object each. */
  get(times = 1): void {
    this.#add("requests", times);
    this.#add("busyMs", times * COSTS.get);
  }

  /** A list from the cache: objects that are looked at, and those of the answer. */
  list(reading: Reading): void {
    this.get(reading.times);
    this.read(reading);
  }

  /** The same objects at the beginning of a watch. */
  read({ looked, listed, bytes, times = 1 }: Reading): void {
    this.#add("bytes", times * listed * bytes);
    const busyMs = looked * COSTS.looked + listed * COSTS.listed;
    this.#add("busyMs", times * busyMs);
  }

  /** Watches end after five to ten minutes and are opened again; each hears a bookmark a minute. One second of that. */
  upkeep(): void {
    const { watches } = this;
    this.#add("requests", watches / 450);
    this.#add("busyMs", watches / 450 * COSTS.watch);
    this.bookmarks(watches / 60);
  }

  /** So many are sent. */
  bookmarks(times: number): void {
    this.#add("sent", times);
    this.#add("bytes", times * BOOKMARK_BYTES);
    this.#add("busyMs", times * COSTS.sent);
  }

  #of(plural: string): Watchers {
    const known = this.#watchers.get(plural);
    if (known !== undefined) return known;
    const made = { everybody: 0, labelled: 0, indexed: 0 };
    this.#watchers.set(plural, made);
    return made;
  }

  #add(count: Count, amount: number): void {
    const counts = this.#seconds[count];
    const at = Math.min(this.#at, counts.length - 1);
    counts[at] = (counts[at] ?? 0) + amount;
  }
}

function groupOf(by: Reach): keyof Watchers {
  if (by === "all") return "everybody";
  return by === "label" ? "labelled" : "indexed";
}
