import type { JsonObject } from "../../../lib/json/mod.ts";
import { compareVersions } from "../../../lib/cni/mod.ts";
import { InstallError } from "../base/errors.ts";
import { type NetworkList, typesOf, versionsOf } from "../base/network_list.ts";

/** CNI versions that a list offers to the runtime, and those that it had to omit. */
export interface Negotiated {
  /** The list, with `cniVersion` and `cniVersions` as all its plugins have them. */
  readonly json: JsonObject;
  /** Versions that were wanted, each with the plugins that lack it. */
  readonly leftOut: Readonly<Record<string, readonly string[]>>;
}

/**
 * Leaves out the versions that a plugin of the list does not have: a runtime
 * takes the highest of those offered, and one plugin that lacks it makes every
 * ADD fail. Plugins that are not in the map are taken to have all.
 *
 * @throws {InstallError} when no version remains
 */
export function negotiateVersions(
  list: NetworkList,
  supported: ReadonlyMap<string, readonly string[]>,
): Negotiated {
  const offered = versionsOf(list.json);
  const leftOut: Record<string, readonly string[]> = {};
  for (const version of offered) {
    const lacking = typesOf(list).filter((type) =>
      supported.get(type)?.includes(version) === false
    );
    if (lacking.length > 0) leftOut[version] = [...new Set(lacking)];
  }
  const rest = offered.filter((version) => !Object.hasOwn(leftOut, version));
  if (rest.length === offered.length) return { json: list.json, leftOut };
  const [highest] = [...rest].sort(compareVersions).reverse();
  if (highest === undefined) throw noVersion(leftOut, supported);
  const { cniVersion, cniVersions } = list.json;
  return {
    json: {
      ...list.json,
      cniVersion: rest.includes(String(cniVersion)) ? cniVersion : highest,
      ...(cniVersions !== undefined && { cniVersions: rest }),
    },
    leftOut,
  };
}

function noVersion(
  leftOut: Negotiated["leftOut"],
  supported: ReadonlyMap<string, readonly string[]>,
): InstallError {
  const types = new Set(Object.values(leftOut).flat());
  const found = [...types].map((type) =>
    `${type} (${supported.get(type)?.join(", ")})`
  );
  return new InstallError(
    `Cannot use the network configuration: not all plugins of the chain support CNI version ${
      Object.keys(leftOut).join(" or ")
    }; found ${
      found.join(" and ")
    }; offer another in "cniVersion" or "cniVersions", or install newer plugins`,
  );
}
