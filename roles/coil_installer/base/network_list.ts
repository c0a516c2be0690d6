import { isJsonObject, type JsonObject } from "../../../lib/json/mod.ts";
import { CniError, parseConfig } from "../../../lib/cni/mod.ts";
import { API_GROUP } from "../../../lib/names/mod.ts";

/** The plugin's type in network configurations, and its file's name. */
export const PLUGIN = "coil";

/**
 * Key in a network configuration under which the installer notes what it wrote
 * itself, so that the next run knows what others have added. Runtimes, and
 * tools that add plugins, leave keys that they do not know as they are.
 */
export const INSTALLER_KEY: string = `${API_GROUP}/installer`;

/** A text that is not a list of plugins. The message is the reason alone. */
export class NetworkListError extends Error {
  override readonly name = "NetworkListError";
}

/** One plugin of a list. */
export interface PluginEntry {
  readonly type: string;
  /** The whole entry. */
  readonly json: JsonObject;
}

/** A network configuration that lists plugins: what a `.conflist` file holds. */
export interface NetworkList {
  /** All of it. */
  readonly json: JsonObject;
  readonly plugins: readonly PluginEntry[];
}

/** Note of the installer in a list. */
export interface InstallerNote {
  /** Types of the plugins that it wrote. */
  readonly plugins: readonly string[];
  /** Keys of the list, other than the specification's, that it wrote. */
  readonly keys: readonly string[];
}

/**
 * Reads a list as leniently as a runtime does; a `nameless` one is to become
 * part of another.
 *
 * @throws {NetworkListError} when a runtime could not use it
 */
export function parseNetworkList(
  text: string,
  { nameless = false }: { readonly nameless?: boolean } = {},
): NetworkList {
  const json = asObject(parseJson(text), "it");
  const hasName = typeof json["name"] === "string" && json["name"] !== "";
  if (!hasName && !nameless) {
    throw new NetworkListError('it has no "name"');
  }
  const { plugins } = json;
  if (!Array.isArray(plugins) || plugins.length === 0) {
    throw new NetworkListError(
      '"plugins" must be a list',
    );
  }
  return {
    json,
    plugins: plugins.map((item: unknown, i) => {
      const entry = asObject(item, `plugins[${i}]`);
      const { type } = entry;
      if (typeof type !== "string" || !/^[^/\s]+$/.test(type)) {
        throw new NetworkListError(`plugins[${i}] has no usable "type"`);
      }
      return { type, json: entry };
    }),
  };
}

/**
 * Reads the list that is to be installed: it also has to be one that our
 * plugin accepts, and to name it.
 *
 * @throws {NetworkListError} otherwise
 */
export function parseWantedList(text: string): NetworkList {
  const list = parseNetworkList(text);
  const { cniVersion, name } = list.json;
  try {
    parseConfig(JSON.stringify({ cniVersion, name, type: PLUGIN }));
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const details = error.details === "" ? "" : ` (${error.details})`;
    throw new NetworkListError(`${error.message}${details}`, { cause: error });
  }
  const types = typesOf(list);
  const count = types.filter((type) => type === PLUGIN).length;
  if (count !== 1) {
    throw new NetworkListError(
      `it needs one plugin of type "${PLUGIN}", and has ${count} among ${
        JSON.stringify(types)
      }`,
    );
  }
  versionsOf(list.json);
  return list;
}

/**
 * The versions that a list offers to the runtime, `cniVersion` first.
 *
 * @throws {NetworkListError} when `cniVersions` is not a list of texts
 */
export function versionsOf(json: JsonObject): readonly string[] {
  const { cniVersion, cniVersions } = json;
  const more: unknown = cniVersions ?? [];
  if (!Array.isArray(more) || !more.every((item) => typeof item === "string")) {
    throw new NetworkListError('"cniVersions" is not a list of versions');
  }
  const first = typeof cniVersion === "string" && cniVersion !== ""
    ? [cniVersion]
    : [];
  return [...new Set([...first, ...more])];
}

/** The plugins' types, in order. */
export function typesOf(list: NetworkList): readonly string[] {
  return list.plugins.map(({ type }) => type);
}

export function hasPlugin(list: NetworkList): boolean {
  return list.plugins.some(({ type }) => type === PLUGIN);
}

/** What an installer noted in the list; undefined when none wrote it. */
export function noteOf(list: NetworkList): InstallerNote | undefined {
  const note = list.json[INSTALLER_KEY];
  if (!isJsonObject(note)) return undefined;
  const { plugins, keys } = note;
  return { plugins: texts(plugins), keys: texts(keys) };
}

function texts(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return [];
  return value.filter((item) => typeof item === "string");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new NetworkListError(`it is not JSON: ${cause.message}`, { cause });
  }
}

function asObject(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new NetworkListError(`${what} is not a JSON object`);
}
