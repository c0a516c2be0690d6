import {
  type EgressClient,
  FIRST_SLICE,
  MAX_SLICE_CLIENTS,
} from "../../../lib/api/mod.ts";

/** A slice that there is. */
export interface LiveSlice {
  readonly number: number;
  readonly clients: readonly EgressClient[];
  /** Whether it has to be written even if its clients are up to date. */
  readonly isDamaged?: boolean;
}

/** A slice to write: made if it is not there. */
export interface SliceWrite {
  readonly number: number;
  readonly clients: readonly EgressClient[];
}

/** Steps in this order: a client that leaves a slice is in one of a lower number by then. */
export interface SlicePlan {
  readonly writes: readonly SliceWrite[];
  /** Numbers of slices that are empty and not needed. */
  readonly deletes: readonly number[];
}

/** A slice in the making. */
interface Draft {
  readonly number: number;
  readonly kept: EgressClient[];
  /** Whether it is not there yet. */
  readonly isNew?: boolean;
  /** Whether it is to be written anyway. */
  isChanged: boolean;
}

/**
 * Plans the slices of an Egress, with as few writes as possible: a client
 * stays in the slice that it is in, a new one goes where there is room. Slices
 * are emptied before they are deleted, and clients move together when there
 * are twice as many slices as needed. The first slice is always there, and
 * made after all others: a gateway that sees it sees all clients.
 *
 * A client only ever moves to a slice of a lower number, and of two that have
 * it the lower one keeps it. So however many plan at once, on slices however
 * old, one that is in a slice stays in that or in a lower one.
 */
export function planSlices(
  wanted: ReadonlyMap<string, EgressClient>,
  live: readonly LiveSlice[],
): SlicePlan {
  const placed = new Map<string, Draft>();
  const drafts: Draft[] = live.toSorted((a, b) => a.number - b.number)
    .map((slice) => draftOf(slice, { wanted, placed }));
  const homeless = [...wanted.values()].filter(({ uid }) => !placed.has(uid));
  moveTogether(drafts, wanted.size);
  if (drafts[0]?.number !== FIRST_SLICE) {
    drafts.unshift(newDraft(FIRST_SLICE));
  }
  place(homeless, drafts);
  const written = drafts.filter(({ isChanged }) => isChanged);
  const writes = [
    ...written.filter(({ isNew }) => !isNew),
    ...written.filter(({ isNew }) => isNew).reverse(),
  ].map(({ number, kept }) => ({ number, clients: kept }));
  // The first empty one stays: the next client goes there.
  const [, ...spare] = drafts.filter(({ kept }) => kept.length === 0);
  const deletes = spare.filter(({ isChanged }) => !isChanged).map(numberOf);
  return { writes, deletes };
}

function draftOf(
  { number, clients, isDamaged = false }: LiveSlice,
  { wanted, placed }: {
    readonly wanted: ReadonlyMap<string, EgressClient>;
    readonly placed: Map<string, Draft>;
  },
): Draft {
  const draft: Draft = { number, kept: [], isChanged: isDamaged };
  for (const { uid } of clients) {
    const client = wanted.get(uid);
    const other = placed.get(uid);
    // Written, so that it is certain to have the client before this one loses it.
    if (other !== undefined) other.isChanged = true;
    if (client === undefined || other !== undefined) continue;
    placed.set(uid, draft);
    draft.kept.push(client);
  }
  draft.isChanged ||= textOf(draft.kept) !== textOf(clients);
  return draft;
}

function newDraft(number: number): Draft {
  return { number, kept: [], isNew: true, isChanged: true };
}

/** Moves all clients into the lowest slices that have some, as many as are needed; nothing unless there are twice as many. */
function moveTogether(drafts: readonly Draft[], clients: number): void {
  const filled = drafts.filter(({ kept }) => kept.length > 0);
  const needed = Math.ceil(clients / MAX_SLICE_CLIENTS);
  if (filled.length <= 2 * needed) return;
  const emptied = filled.splice(needed);
  place(emptied.flatMap(({ kept }) => kept.splice(0)), filled);
  for (const draft of emptied) draft.isChanged = true;
}

/** Puts clients where there is room: into slices that are written anyway, then into the fullest, then into new ones. */
function place(clients: readonly EgressClient[], drafts: Draft[]): void {
  const byPreference = drafts.toSorted((a, b) =>
    Number(b.isChanged) - Number(a.isChanged) || b.kept.length - a.kept.length
  );
  const taken = new Set(drafts.map(numberOf));
  let at = 0;
  let number = 0;
  for (const client of clients) {
    while (byPreference[at]?.kept.length === MAX_SLICE_CLIENTS) at++;
    let draft = byPreference[at];
    if (draft === undefined) {
      while (taken.has(number)) number++;
      draft = newDraft(number++);
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
