import { COILD_SOCKET } from "../../../lib/names/mod.ts";
import { chainInto, findChainSource, nameBefore } from "./chain.ts";
import { InstallError } from "../base/errors.ts";
import {
  type NetworkList,
  PLUGIN,
  type PluginEntry,
} from "../base/network_list.ts";
import type { ConfigFile } from "../read/situation.ts";

/** Upstream's name of the network configuration's file. */
export const DEFAULT_CONF_NAME = "10-coil.conflist";

/** Requested configuration: a list, or a plugin in the list of another network. */
export type Wanted =
  | { readonly kind: "list"; readonly list: NetworkList }
  | { readonly kind: "chained"; readonly entry: PluginEntry };

/** The file to write, before what others have added to it. */
export interface Target {
  readonly name: string;
  readonly list: NetworkList;
  /** The file whose list it is made from. */
  readonly source?: string;
}

/**
 * The socket of coild that the plugin is to call.
 *
 * @throws {InstallError} when the configuration has no text for it
 */
export function socketOf(wanted: Wanted): string {
  const entry = wanted.kind === "chained"
    ? wanted.entry
    : wanted.list.plugins.find(({ type }) => type === PLUGIN);
  // As the plugin does, which reads the same entry.
  const socket = entry?.json["socket"] ?? "";
  if (typeof socket === "string") return socket || COILD_SOCKET;
  throw new InstallError(
    `Cannot use the network configuration: "socket" of the plugin "${PLUGIN}" is not a string`,
  );
}

/**
 * The file to write, as the directory is now; undefined when there is no other
 * network yet to chain into. Without a given name it is upstream's, or one that
 * makes the runtime take the chained list before the one it is made from.
 *
 * @throws {InstallError} when a runtime would never take the file
 */
export function resolveTarget(
  wanted: Wanted,
  { files, givenName }: {
    readonly files: readonly ConfigFile[];
    readonly givenName: string | undefined;
  },
): Target | undefined {
  if (wanted.kind === "list") {
    return { name: givenName ?? DEFAULT_CONF_NAME, list: wanted.list };
  }
  const source = findChainSource(files, givenName);
  if (source === undefined) return undefined;
  const name = givenName ?? nameBefore(source.name);
  if (name >= source.name) {
    throw new InstallError(
      `Cannot chain into "${source.name}": runtimes use it before "${name}"; set a name that sorts before it, for example ${
        nameBefore(source.name)
      } (CNI_CONF_NAME), or none`,
    );
  }
  const list = chainInto(source, wanted.entry);
  return { name, list, source: source.name };
}
