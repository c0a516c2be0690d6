import type { JsonObject } from "../../../lib/json/mod.ts";
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { mergeLists } from "./merge.ts";
import type { NetworkList } from "../base/network_list.ts";
import type { ConfigFile, OwnFile, Situation } from "../read/situation.ts";
import { CONFIG_MODE, type Step } from "./step.ts";

/** Handling of other networks' configurations that a runtime takes before ours. */
export type Others = "keep" | "disable";

/** A log record for the admin. */
export interface Notice {
  readonly level: "info" | "warn";
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A list that has everything that others added to ours. */
export interface Chain {
  readonly list: NetworkList;
  readonly notices: readonly Notice[];
  /** The file in our place holds what would be lost. */
  readonly isLossy: boolean;
}

/** Files that make way for ours are called so: no runtime reads them, and uninstall gives them their names back. */
export const DISABLED_SUFFIX = ".coil-disabled";

/** Adds to the wanted list what others added to ours, also under a name that it had before. */
export function planChain(wanted: NetworkList, situation: Situation): Chain {
  const { own, earlier } = situation;
  const sources = [
    ...(own?.kind === "ours" ? [{ name: own.file.name, list: own.list }] : []),
    ...earlier,
  ];
  const notices: Notice[] = [];
  let list = wanted;
  let isLossy = false;
  for (const { name, list: existing } of sources) {
    const merged = mergeLists(list, existing);
    list = merged.list;
    isLossy ||= merged.dropped.length > 0;
    if (merged.kept.length > 0) {
      notices.push({
        level: "info",
        message: "Keeping plugins that others added to the chain",
        fields: { file: name, plugins: merged.kept },
      });
    }
    if (merged.dropped.length > 0) {
      notices.push({
        level: "warn",
        message:
          "Removing the main plugin of an earlier configuration; a copy of the file is kept",
        fields: { file: name, plugins: merged.dropped },
      });
    }
  }
  return { list, notices, isLossy };
}

export interface ConfigRequest {
  readonly directory: string;
  /** Our file's name. */
  readonly name: string;
  /** What our file is to hold. */
  readonly json: JsonObject;
  readonly isLossy: boolean;
  readonly others: Others;
}

/**
 * The steps that give the directory our configuration. Ours is there before
 * anything else goes, so that the node always has one.
 */
export function planConfig(
  request: ConfigRequest,
  { own, earlier, conflicting }: Situation,
): readonly Step[] {
  const pathOf = (name: string) => `${request.directory}/${name}`;
  return [
    ...(own === undefined ? [] : planKeeping(request, own)),
    ...planWriting(request, own),
    ...earlier.map(({ name }): Step => ({
      kind: "remove",
      path: pathOf(name),
    })),
    ...(request.others === "keep" ? [] : conflicting.map((name): Step => ({
      kind: "rename",
      path: pathOf(name),
      to: pathOf(name) + DISABLED_SUFFIX,
    }))),
  ];
}

/** A copy of what would be lost. */
function planKeeping(request: ConfigRequest, own: OwnFile): Step[] {
  const path = `${request.directory}/${request.name}`;
  switch (own.kind) {
    case "foreign":
      return [{ kind: "keepCopy", path, as: path + DISABLED_SUFFIX }];
    case "malformed":
      return [{ kind: "keepCopy", path, as: savedPath(path, own.file) }];
    case "ours":
      return request.isLossy
        ? [{ kind: "keepCopy", path, as: savedPath(path, own.file) }]
        : [];
  }
}

/** The same contents always get the same name. */
function savedPath(path: string, { text }: ConfigFile): string {
  const digest = createHash("sha256").update(text).digest("hex");
  return `${path}.coil-saved-${digest.slice(0, 8)}`;
}

function planWriting(
  { directory, name, json }: ConfigRequest,
  own: OwnFile | undefined,
): Step[] {
  const path = `${directory}/${name}`;
  const isSame = own?.kind === "ours" && !own.file.isLink &&
    isDeepStrictEqual(own.list.json, json);
  if (!isSame) {
    const text = `${JSON.stringify(json, undefined, 2)}\n`;
    return [{ kind: "writeConfig", path, text, expected: own?.file.text }];
  }
  return own.file.mode === CONFIG_MODE
    ? []
    : [{ kind: "setMode", path, mode: CONFIG_MODE }];
}

/** What the admin should know about the directory. */
export function noticesOf(
  { own, conflicting, allies }: Situation,
  { others, directory }: {
    readonly others: Others;
    readonly directory: string;
  },
): readonly Notice[] {
  const notices: Notice[] = [];
  if (own?.kind === "malformed") {
    notices.push({
      level: "warn",
      message:
        "Replacing a network configuration that no runtime can use; a copy is kept",
      fields: { directory, file: own.file.name, reason: own.reason },
    });
  }
  if (own?.kind === "foreign") {
    notices.push({
      level: "warn",
      message:
        "Replacing another network's configuration; uninstall restores it",
      fields: { directory, file: own.file.name },
    });
  }
  if (conflicting.length > 0 && others === "keep") {
    notices.push({
      level: "warn",
      message:
        "Runtimes use another network configuration before coil's: remove it, or choose a name that sorts before it ($CNI_CONF_NAME), or set --others=disable",
      fields: { directory, files: conflicting },
    });
  }
  if (allies.length > 0) {
    notices.push({
      level: "info",
      message: "Other network configurations also use coil; keeping them",
      fields: { directory, files: allies },
    });
  }
  return notices;
}
