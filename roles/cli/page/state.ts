import type {
  BlockView,
  ContactView,
  EgressView,
  NodeView,
  PoolView,
  StatusView,
} from "../ui/view.ts";

/** A message of the server: entries that are new or other than before, and keys of those that are gone. */
export interface Changes {
  readonly set: Readonly<Record<string, unknown>>;
  readonly gone: readonly string[];
}

export interface ClusterState {
  /** Undefined until it has been read. */
  readonly status: StatusView | undefined;
  readonly contact: ContactView;
  readonly pools: readonly PoolView[];
  /** Blocks by the names of their pools, by their indices. */
  readonly blocks: ReadonlyMap<string, readonly BlockView[]>;
  readonly nodes: readonly NodeView[];
  readonly egresses: readonly EgressView[];
}

/** The entries after a message; of the first message of a connection nothing of before is kept. */
export function applyChanges(
  before: ReadonlyMap<string, unknown>,
  { set, gone }: Changes,
): Map<string, unknown> {
  const after = new Map(before);
  for (const [key, view] of Object.entries(set)) after.set(key, view);
  for (const key of gone) after.delete(key);
  return after;
}

/** Sorts the entries by what they are. */
export function stateOf(entries: ReadonlyMap<string, unknown>): ClusterState {
  const byKind = Map.groupBy(
    [...entries].sort(([a], [b]) => a < b ? -1 : 1),
    ([key]) => key.split("/")[0],
  );
  const all = <T>(kind: string): T[] => viewsOf(byKind.get(kind) ?? []);
  const blocks = Map.groupBy(
    all<BlockView>("block").sort((a, b) => a.index - b.index),
    ({ pool }) => pool,
  );
  return {
    status: all<StatusView>("status")[0],
    contact: all<ContactView>("contact")[0] ?? {},
    pools: all("pool"),
    blocks,
    nodes: all("node"),
    egresses: all("egress"),
  };
}

/** The one place where views get their types: the server is the same program. */
function viewsOf<T>(entries: readonly (readonly [string, unknown])[]): T[] {
  return entries.map(([, view]) => view as T);
}
