import {
  hasPlugin,
  type NetworkList,
  NetworkListError,
  noteOf,
  parseNetworkList,
  PLUGIN,
} from "../base/network_list.ts";

/** A file of the directory of network configurations. */
export interface ConfigFile {
  readonly name: string;
  readonly text: string;
  /** The permission bits. */
  readonly mode: number;
  readonly isLink: boolean;
}

/** The file in the place of ours, and what it is. */
export type OwnFile =
  & { readonly file: ConfigFile }
  & (
    | { readonly kind: "ours"; readonly list: NetworkList }
    | { readonly kind: "malformed"; readonly reason: string }
    /** Of another network: our plugin is not in it. */
    | { readonly kind: "foreign" }
  );

/** The relevant contents of the directory. */
export interface Situation {
  readonly own?: OwnFile;
  /** Files that the installer wrote under other names. */
  readonly earlier: readonly {
    readonly name: string;
    readonly list: NetworkList;
  }[];
  /** Files of others that a runtime takes before ours. */
  readonly conflicting: readonly string[];
  /** Files of others that lead to our plugin in some way. */
  readonly allies: readonly string[];
}

/** What runtimes look at: `ConfFiles()` of libcni, as containerd and CRI-O call it. */
const LOADED = /\.(conf|conflist|json)$/;

/** Whether a runtime would read a file of this name. */
export function isLoaded(name: string): boolean {
  return LOADED.test(name);
}

/** Says what the files are, for an installer whose file is called `name`. */
export function examine(files: readonly ConfigFile[], name: string): Situation {
  const ownFile = files.find((file) => file.name === name);
  const earlier: { name: string; list: NetworkList }[] = [];
  const conflicting: string[] = [];
  const allies: string[] = [];
  for (const file of files) {
    if (file.name === name || !isLoaded(file.name)) continue;
    const list = tryParse(file.text);
    if (list !== undefined && noteOf(list) !== undefined && hasPlugin(list)) {
      earlier.push({ name: file.name, list });
    } else if (leadsToUs(file.text, name)) {
      allies.push(file.name);
    } else if (file.name < name) {
      // Runtimes sort by bytes; these names are ASCII in practice.
      conflicting.push(file.name);
    }
  }
  return {
    ...(ownFile !== undefined && { own: examineOwn(ownFile) }),
    earlier,
    conflicting: conflicting.sort(),
    allies: allies.sort(),
  };
}

function examineOwn(file: ConfigFile): OwnFile {
  try {
    const list = parseNetworkList(file.text);
    return hasPlugin(list)
      ? { kind: "ours", file, list }
      : { kind: "foreign", file };
  } catch (error) {
    if (!(error instanceof NetworkListError)) throw error;
    return { kind: "malformed", file, reason: error.message };
  }
}

function tryParse(text: string): NetworkList | undefined {
  try {
    return parseNetworkList(text);
  } catch (error) {
    if (error instanceof NetworkListError) return undefined;
    throw error;
  }
}

/**
 * Whether a configuration has our plugin somewhere inside (Multus keeps whole
 * lists as delegates, Cilium's agent writes lists of others under its own
 * name) or names our file (Multus' clusterNetwork).
 */
function leadsToUs(text: string, name: string): boolean {
  try {
    return text.includes(name) || holdsPlugin(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

function holdsPlugin(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if ("type" in value && value.type === PLUGIN) return true;
  return Object.values(value).some(holdsPlugin);
}
