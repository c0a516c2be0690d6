import { linkSet, type RouteSocket } from "../../netlink/mod.ts";
import { isGone } from "../links/husk_reaper.ts";
import type { LinkFinder } from "../links/link_finder.ts";
import { type PodSources, SOURCE_SETTINGS } from "../base/sources.ts";
import type { PodLink } from "../state/survey.ts";

/**
 * Has the host take these sources from a pod, whose link is looked at again
 * first: it may be a husk by now. Returns whether it was still the pod's.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function applySources(
  host: RouteSocket,
  pod: PodLink,
  { sources, finder }: {
    readonly sources: PodSources;
    readonly finder: LinkFinder;
  },
): Promise<boolean> {
  const { index } = pod;
  const link = await host.getLink({ index });
  if (link === undefined) return false;
  const found = finder.classify(link, pod);
  if (found === "other" || found.state !== "pod") return false;
  const [error] = await host.tryExecute([
    linkSet({ index }, SOURCE_SETTINGS[sources]),
  ]);
  if (error !== undefined && !isGone(error)) throw error;
  return error === undefined;
}
