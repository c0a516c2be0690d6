import type { JsonObject } from "../../../lib/json/mod.ts";
import { InstallError } from "../base/errors.ts";
import {
  type NetworkList,
  NetworkListError,
  noteOf,
  parseNetworkList,
  parseWantedList,
  PLUGIN,
  type PluginEntry,
  typesOf,
} from "../base/network_list.ts";
import { type ConfigFile, isLoaded } from "../read/situation.ts";

/** Another network's configuration, which ours is to be a part of. */
export interface ChainSource {
  /** Its file's name. */
  readonly name: string;
  readonly list: NetworkList;
}

/**
 * Plugins whose configurations are not networks of their own: the loopback, and
 * those that lead to another file of the directory.
 */
const NO_NETWORKS: ReadonlySet<string> = new Set(["loopback", "multus"]);

/** The plugin's entry of a configuration that is to be chained. @throws {NetworkListError} when there is more in it, or less */
export function parseChainEntry(text: string): PluginEntry {
  const list = parseNetworkList(text, { nameless: true });
  const [entry, ...more] = list.plugins;
  if (entry?.type === PLUGIN && more.length === 0) return entry;
  throw new NetworkListError(
    `with --chain it needs the plugin "${PLUGIN}" alone, and has ${
      JSON.stringify(typesOf(list))
    }`,
  );
}

/** The configuration that a runtime would take if ours were not there. */
export function findChainSource(
  files: readonly ConfigFile[],
  ownName: string | undefined,
): ChainSource | undefined {
  const candidates = files
    .filter(({ name }) => isLoaded(name) && name !== ownName)
    .sort((a, b) => a.name < b.name ? -1 : 1);
  for (const { name, text } of candidates) {
    const list = tryParseNetwork(text);
    if (list === undefined || noteOf(list) !== undefined) continue;
    const types = typesOf(list);
    if (types.every((type) => NO_NETWORKS.has(type) || type === PLUGIN)) {
      continue;
    }
    return { name, list };
  }
  return undefined;
}

/** A list, or a single plugin's configuration made one as libcni's `ConfListFromConf()` does. */
function tryParseNetwork(text: string): NetworkList | undefined {
  try {
    const json: unknown = JSON.parse(text);
    if (typeof json !== "object" || json === null) return undefined;
    if ("plugins" in json) return parseNetworkList(text);
    const { name, cniVersion, ...plugin } = json as JsonObject;
    const list = { cniVersion, name, plugins: [plugin] };
    return parseNetworkList(JSON.stringify(list));
  } catch (error) {
    const isExpected = error instanceof SyntaxError ||
      error instanceof NetworkListError;
    if (isExpected) return undefined;
    throw error;
  }
}

/**
 * The source's list with our plugin behind the one that makes the interface.
 * An entry of ours that is already there is replaced.
 *
 * @throws {InstallError} when our plugin cannot be part of it
 */
export function chainInto(
  { name, list }: ChainSource,
  entry: PluginEntry,
): NetworkList {
  const others = list.plugins.filter(({ type }) => type !== PLUGIN);
  const [first, ...rest] = others.map(({ json }) => json);
  const json = { ...list.json, plugins: [first, entry.json, ...rest] };
  try {
    return parseWantedList(JSON.stringify(json));
  } catch (cause) {
    if (!(cause instanceof NetworkListError)) throw cause;
    throw new InstallError(
      `Cannot chain ${PLUGIN} into the configuration of "${name}"`,
      { cause },
    );
  }
}

/**
 * A name that sorts right before a file: with its number, if that is enough,
 * else with the number before.
 *
 * @throws {InstallError} when there is none
 */
export function nameBefore(name: string): string {
  const digits = /^\d+/.exec(name)?.[0] ?? "00";
  const number = Number(digits);
  const candidates = [number, number - 1, 0]
    .filter((one) => one >= 0)
    .map((one) => `${String(one).padStart(digits.length, "0")}-coil.conflist`);
  const found = candidates.find((candidate) => candidate < name);
  if (found !== undefined) return found;
  throw new InstallError(
    `Cannot find a file name that sorts before "${name}": set one (CNI_CONF_NAME)`,
  );
}
