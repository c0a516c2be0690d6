import {
  type EgressClient,
  FIRST_SLICE,
  MAX_SLICE_CLIENTS,
} from "../../../lib/api/mod.ts";

/** A slice that there is. */
export interface LiveSlice {
  readonly number: number;
  readonly clients: readonly EgressClient[];
  /** Whether it has to be written even if its clients are right. */
  readonly isDamaged?: boolean;
}

/** A slice to write: made if it is not there. */
export interface SliceWrite {
  readonly number: number;
  readonly clients: readonly EgressClient[];
}

/** What to do, in this order, so that a client that moves is in two slices for a moment and never in none. */
export interface SlicePlan {
  readonly writes: readonly SliceWrite[];
  /** Numbers of slices that are empty and not needed. */
  readonly deletes: readonly number[];
}

/** A slice in the making. */
interface Draft {
  readonly number: number;
  readonly kept: EgressClient[];
  /** Whether it is to be written anyway. */
  isChanged: boolean;
}

/**
 * Plans the slices of an Egress, with as few writes as possible: a client
 * stays in the slice that it is in, a new one goes where there is room. Slices
 * are emptied before they are deleted, and the clients of the emptiest ones
 * move when there are twice as many slices as needed. The first slice is
 * always there, and made after all others: who sees it sees all clients.
 */
export function planSlices(
  wanted: ReadonlyMap<string, EgressClient>,
  live: readonly LiveSlice[],
): SlicePlan {
  const placed = new Set<string>();
  const drafts = live.toSorted((a, b) => a.number - b.number)
    .map((slice) => draftOf(slice, { wanted, placed }));
  if (drafts[0]?.number !== FIRST_SLICE) {
    drafts.unshift({ number: FIRST_SLICE, kept: [], isChanged: true });
  }
  const emptied = dissolve(drafts, wanted.size);
  const homeless = [...wanted.values()].filter(({ uid }) => !placed.has(uid));
  homeless.push(...emptied.flatMap(({ kept }) => kept));
  const rest = drafts.filter((draft) => !emptied.includes(draft));
  place(homeless, { drafts: rest, taken: new Set(drafts.map(numberOf)) });
  const written = rest.filter(({ isChanged }) => isChanged)
    .toSorted((a, b) => b.number - a.number);
  const writes = [
    ...written.map(({ number, kept }) => ({ number, clients: kept })),
    ...emptied.map(({ number }) => ({ number, clients: [] })),
  ];
  // The first empty one stays: the next client goes there.
  const [, ...spare] = rest.filter(({ kept }) => kept.length === 0);
  const deletes = spare.filter(({ isChanged }) => !isChanged).map(numberOf);
  return { writes, deletes };
}

function draftOf(
  { number, clients, isDamaged = false }: LiveSlice,
  { wanted, placed }: {
    readonly wanted: ReadonlyMap<string, EgressClient>;
    readonly placed: Set<string>;
  },
): Draft {
  const kept: EgressClient[] = [];
  for (const { uid } of clients) {
    const client = wanted.get(uid);
    if (client === undefined || placed.has(uid)) continue;
    if (kept.length === MAX_SLICE_CLIENTS) break;
    placed.add(uid);
    kept.push(client);
  }
  const isChanged = isDamaged || textOf(kept) !== textOf(clients);
  return { number, kept, isChanged };
}

/** The emptiest slices, as many as are too many; none unless there are twice as many as needed. */
function dissolve(drafts: readonly Draft[], clients: number): Draft[] {
  const filled = drafts.filter(({ kept }) => kept.length > 0);
  const needed = Math.ceil(clients / MAX_SLICE_CLIENTS);
  if (filled.length <= 2 * needed) return [];
  return filled.toSorted((a, b) => a.kept.length - b.kept.length)
    .slice(0, filled.length - needed);
}

/** Puts clients where there is room: into slices that are written anyway, then into the fullest, then into new ones. */
function place(
  clients: readonly EgressClient[],
  { drafts, taken }: {
    readonly drafts: Draft[];
    readonly taken: ReadonlySet<number>;
  },
): void {
  const byPreference = drafts.toSorted((a, b) =>
    Number(b.isChanged) - Number(a.isChanged) || b.kept.length - a.kept.length
  );
  let at = 0;
  let number = 0;
  for (const client of clients) {
    while (byPreference[at]?.kept.length === MAX_SLICE_CLIENTS) at++;
    let draft = byPreference[at];
    if (draft === undefined) {
      while (taken.has(number)) number++;
      draft = { number: number++, kept: [], isChanged: true };
      drafts.push(draft);
      byPreference.push(draft);
    }
    draft.kept.push(client);
    draft.isChanged = true;
  }
}

function numberOf({ number }: { readonly number: number }): number {
  return number;
}

/** As the API server returns clients, in one order of keys. */
function textOf(clients: readonly EgressClient[]): string {
  return JSON.stringify(
    clients.map(({ namespace, name, uid, nodeName, addresses = [] }) => [
      ...[namespace, name, uid, nodeName],
      ...addresses,
    ]),
  );
}
