import {
  layoutText,
  mergeSpans,
  type Pool,
  type Span,
  spanAt,
} from "../../api/mod.ts";
import { type DualStack, type Prefix, valuesOf } from "../../inet/mod.ts";
import type { PoolIndex } from "./index.ts";
import {
  coveringBlocks,
  ourBlocks,
  type SharedRange,
  sharedRanges,
  theirBlocks,
} from "./shared_range.ts";

/** Addresses that a pool has in common with others. */
export interface PoolOverlap {
  /** Subnets that another pool has too, or the pool itself twice. */
  readonly subnets: readonly {
    readonly pool: string;
    readonly subnet: Prefix;
  }[];
  /** Names of blocks that lie in the pool, but not where their own pool and index would put them. */
  readonly misplaced: readonly string[];
  /** Indices of the pool's blocks that overlap another block; sorted, none twice. */
  readonly taken: readonly Span[];
}

interface Known {
  readonly pool: Pool;
  readonly layout: string;
  shared: SharedRange[];
  /** Where misplaced blocks lie, until one comes or goes. */
  misplaced?: {
    readonly names: readonly string[];
    readonly spans: readonly Span[];
  };
}

/**
 * Finds the blocks of a pool that overlap blocks of others.
 *
 * The addresses of a block follow from its pool and index, so no block is
 * stored here but misplaced blocks, whose addresses do not: where two pools have
 * addresses in common, an index of one is computed from an index of the
 * other. What is looked up is the other's {@linkcode PoolIndex}, in which an
 * index is marked before its block is created; so two pools of one process
 * never allocate the same addresses at once.
 */
export class Overlaps {
  readonly #indexOf: (pool: string) => PoolIndex | undefined;
  readonly #known = new Map<string, Known>();
  readonly #misplaced = new Map<string, DualStack<Prefix>>();

  constructor(indexOf: (pool: string) => PoolIndex | undefined) {
    this.#indexOf = indexOf;
  }

  /** Takes over a pool, or its changes. */
  set(pool: Pool): void {
    const before = this.#known.get(pool.name);
    if (before?.pool === pool) return;
    const layout = layoutText(pool);
    if (before?.layout === layout) return;
    this.drop(pool.name);
    const shared = sharedRanges(pool, pool);
    for (const other of this.#known.values()) {
      shared.push(...sharedRanges(pool, other.pool));
      other.shared.push(...sharedRanges(other.pool, pool));
    }
    this.#known.set(pool.name, { pool, layout, shared });
  }

  /** Forgets a pool. */
  drop(pool: string): void {
    if (!this.#known.delete(pool)) return;
    for (const known of this.#known.values()) {
      known.shared = known.shared.filter(({ other }) => other !== pool);
    }
  }

  /**
   * Takes note of a block whose addresses do not follow from its pool and
   * index, or whose pool is not known; or, without addresses, that it is none
   * or gone. Returns the pools that it concerns.
   */
  setMisplaced(
    block: string,
    prefixes: DualStack<Prefix> | undefined,
  ): string[] {
    const before = this.#misplaced.get(block);
    if (textOf(before) === textOf(prefixes)) return [];
    if (prefixes === undefined) this.#misplaced.delete(block);
    else this.#misplaced.set(block, prefixes);
    const concerned: string[] = [];
    for (const [name, known] of this.#known) {
      const isConcerned = [before, prefixes].some((p) =>
        p !== undefined && coveringBlocks(known.pool, p).length > 0
      );
      if (!isConcerned) continue;
      delete known.misplaced;
      concerned.push(name);
    }
    return concerned;
  }

  /** Names of the other pools that have addresses in common with the pool. */
  neighbours(pool: string): string[] {
    return this.sharers(pool).filter((name) => name !== pool);
  }

  /** The same, with the pool's own name if it has addresses in two of its subnets. */
  sharers(pool: string): string[] {
    const shared = this.#known.get(pool)?.shared ?? [];
    return [...new Set(shared.map(({ other }) => other))];
  }

  /** The next index worth a try if another block has addresses of the pool's block; undefined if none has. */
  blocked(pool: string, index: number): number | undefined {
    const known = this.#known.get(pool);
    if (known === undefined) return undefined;
    for (const range of known.shared) {
      const theirs = theirBlocks(range, index);
      const used = this.#indexOf(range.other);
      if (theirs === undefined || used === undefined) continue;
      if (!used.hasAny(theirs.first, theirs.last)) continue;
      if (range.ratioBits < 0) return index + 1;
      // Blocks in use often follow one another.
      const free = used.lowestFree(range.theirs.last + 1, theirs.first + 1) ??
        range.theirs.last + 1;
      return (ourBlocks(range, free - 1)?.last ?? index) + 1;
    }
    const misplaced = spanAt(this.#misplacedIn(known).spans, index);
    return misplaced === undefined ? undefined : misplaced.last + 1;
  }

  /** What the pool has in common with others; undefined when nothing. */
  of(pool: string): PoolOverlap | undefined {
    const known = this.#known.get(pool);
    if (known === undefined) return undefined;
    const { names, spans } = this.#misplacedIn(known);
    if (known.shared.length === 0 && names.length === 0) return undefined;
    const taken = [...spans];
    for (const range of known.shared) {
      for (const index of this.#indexOf(range.other)?.values() ?? []) {
        const span = ourBlocks(range, index);
        if (span !== undefined) taken.push(span);
      }
    }
    const subnets = known.shared.map(({ other, subnet }) => ({
      pool: other,
      subnet,
    }));
    return { subnets, misplaced: names, taken: mergeSpans(taken) };
  }

  #misplacedIn(known: Known): NonNullable<Known["misplaced"]> {
    if (known.misplaced !== undefined) return known.misplaced;
    const names: string[] = [];
    const spans: Span[] = [];
    for (const [name, prefixes] of this.#misplaced) {
      const covered = coveringBlocks(known.pool, prefixes);
      if (covered.length > 0) names.push(name);
      spans.push(...covered);
    }
    return known.misplaced = { names: names.sort(), spans: mergeSpans(spans) };
  }
}

function textOf(prefixes: DualStack<Prefix> | undefined): string {
  return prefixes === undefined ? "" : valuesOf(prefixes).join(" ");
}
