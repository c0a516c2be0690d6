import type { JsonObject } from "../../../lib/json/mod.ts";
import {
  INSTALLER_KEY,
  type NetworkList,
  noteOf,
  type PluginEntry,
  typesOf,
} from "../base/network_list.ts";

/** A list with what others had added to an earlier one. */
export interface Merged {
  readonly list: NetworkList;
  /** Types of the plugins that others had added, and that stay. */
  readonly kept: readonly string[];
  /** Types of plugins that stood before ours: main plugins of another configuration. */
  readonly dropped: readonly string[];
}

/** Keys that the CNI specification gives a list (1.1.0, section 1): ours to decide. */
const SPECIFIED: ReadonlySet<string> = new Set([
  "cniVersion",
  "cniVersions",
  "name",
  "disableCheck",
  "disableGC",
  "loadOnlyInlinedPlugins",
  "plugins",
]);

/** A plugin that is not ours, and the plugins of ours before and behind it. */
interface Addition {
  readonly entry: PluginEntry;
  readonly before: readonly string[];
  readonly behind: readonly string[];
}

/**
 * The wanted list, with the plugins and keys that others added to the existing
 * one, each behind the plugin it stood behind; those at the end stay there.
 *
 * Ours are the plugins of the wanted list, and those that the installer noted
 * to have written: what it wrote once and is no longer wanted goes.
 */
export function mergeLists(wanted: NetworkList, existing: NetworkList): Merged {
  const slots = labelled(wanted.plugins);
  const labels = slots.map(({ label }) => label);
  const placed = new Map<string, PluginEntry[]>();
  const dropped: string[] = [];
  const kept: string[] = [];
  for (const addition of additions(wanted, existing)) {
    const { entry } = addition;
    const anchor = anchorOf(addition, labels);
    if (anchor === undefined) {
      dropped.push(entry.type);
      continue;
    }
    placed.set(anchor, [...placed.get(anchor) ?? [], entry]);
    kept.push(entry.type);
  }
  const plugins = slots.flatMap(({ label, entry }) => [
    entry,
    ...placed.get(label) ?? [],
  ]);
  const json = {
    ...wanted.json,
    ...addedKeys(wanted, existing),
    plugins: plugins.map((plugin) => plugin.json),
  };
  return { list: { json, plugins }, kept, dropped };
}

/** The plugin of ours behind which an addition belongs; undefined for one that has to go. */
function anchorOf(
  { before, behind }: Addition,
  wanted: readonly string[],
): string | undefined {
  // No plugin is added in front of the one that makes the interface. What
  // stands there is the main plugin of a configuration that was not noted to be
  // ours, and there cannot be two.
  if (before.length === 0) return undefined;
  // Those who append want to be last.
  if (!behind.some((label) => wanted.includes(label))) return wanted.at(-1);
  return before.findLast((label) => wanted.includes(label)) ?? wanted[0];
}

/** The list with a note of what is ours in it. */
export function withNote(list: NetworkList, wanted: NetworkList): JsonObject {
  const keys = Object.keys(wanted.json).filter((key) =>
    !SPECIFIED.has(key) && key !== INSTALLER_KEY
  );
  return {
    ...list.json,
    [INSTALLER_KEY]: {
      plugins: typesOf(wanted),
      ...(keys.length > 0 && { keys }),
    },
  };
}

function additions(wanted: NetworkList, existing: NetworkList): Addition[] {
  const noted = noteOf(existing)?.plugins ?? [];
  const ours = new Set([
    ...labelled(wanted.plugins).map(({ label }) => label),
    ...labelled(noted.map((type) => ({ type, json: {} })))
      .map(({ label }) => label),
  ]);
  const entries = labelled(existing.plugins);
  const labels = entries.map(({ label }) => label);
  const oursOf = (part: readonly string[]) =>
    part.filter((label) => ours.has(label));
  return entries.flatMap(({ label, entry }, i) => {
    if (ours.has(label)) return [];
    const before = oursOf(labels.slice(0, i));
    return [{ entry, before, behind: oursOf(labels.slice(i)) }];
  });
}

/** A plugin may stand in a list more than once: the nth of its type. */
function labelled(
  plugins: readonly PluginEntry[],
): { readonly label: string; readonly entry: PluginEntry }[] {
  const counts = new Map<string, number>();
  return plugins.map((entry) => {
    const n = counts.get(entry.type) ?? 0;
    counts.set(entry.type, n + 1);
    return { label: `${entry.type} ${n}`, entry };
  });
}

function addedKeys(wanted: NetworkList, existing: NetworkList): JsonObject {
  const noted = noteOf(existing)?.keys ?? [];
  const added = Object.entries(existing.json).filter(([key]) =>
    !SPECIFIED.has(key) && key !== INSTALLER_KEY && !noted.includes(key) &&
    !Object.hasOwn(wanted.json, key)
  );
  return Object.fromEntries(added);
}
