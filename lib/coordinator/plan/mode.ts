import { COORDINATOR_VETH } from "../../names/mod.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { Settings } from "../config/defaults.ts";

/** How one interface is joined to the host: by its own veth pair, or by that of the first interface. */
export type ResolvedMode = "underlay" | "overlay";

/**
 * The mode of one interface of a pod that has these links.
 *
 * @throws {CniError} with code 7 when the mode does not fit what the pod has
 */
export function resolveMode(
  nic: string,
  links: readonly string[],
  { mode, firstNic }: Pick<Settings, "mode" | "firstNic">,
): ResolvedMode {
  const isFirst = nic === firstNic;
  const hasVeth = links.includes(COORDINATOR_VETH);
  if (mode === "underlay" && !isFirst && !hasVeth) {
    throw invalidConfig(
      `interface "${nic}" needs ${COORDINATOR_VETH}, which was not created by previous interface`,
      `please enable coordinator plugin in previous interface "${firstNic}"`,
    );
  }
  if (mode === "overlay" && isFirst) {
    throw invalidConfig(
      `mode overlay does not fit first interface "${nic}"`,
      "this plugin should not work for it: use mode auto or underlay",
    );
  }
  if (mode === "overlay" && hasVeth) {
    throw invalidConfig(
      `mode overlay does not fit interface "${nic}": auxiliary interface ${COORDINATOR_VETH} of underlay mode exists`,
      "use mode auto or underlay",
    );
  }
  if (mode === "underlay" || mode === "overlay") return mode;
  return isFirst || hasVeth ? "underlay" : "overlay";
}
