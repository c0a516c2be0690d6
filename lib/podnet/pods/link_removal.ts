import { linkDelete, type RouteSocket } from "../../netlink/mod.ts";
import { parseLink } from "../base/alias.ts";
import type { CutOff } from "./calls.ts";
import { findHostEnd, type PodEnd } from "../host/host_end.ts";
import { type HuskReaper, isGone } from "../links/husk_reaper.ts";
import type { KnownPods } from "../state/known_pods.ts";
import type { FoundLink, LinkFinder } from "../links/link_finder.ts";
import { cutOff, huskOf } from "../links/teardown.ts";

export interface LinkRemovalOptions {
  readonly host: RouteSocket;
  /** As `host`, for deletions: each keeps its socket busy for a grace period of the kernel. */
  readonly deletions: RouteSocket;
  readonly reaper: HuskReaper;
  readonly finder: LinkFinder;
  readonly known: KnownPods;
  readonly tableId: number;
}

/** Takes host veths away that were found: by their index, never by name or key. */
export class LinkRemoval {
  readonly #with: LinkRemovalOptions;

  constructor(options: LinkRemovalOptions) {
    this.#with = options;
  }

  /** Turns a pod's link into a husk; undefined when it is gone. */
  async cutOff(found: FoundLink): Promise<CutOff | undefined> {
    if (found.state === "husk") return { husk: huskOf(found) };
    const { finder, host, known, tableId } = this.#with;
    const { index } = found.link;
    const addresses = await known.addressesOf(index);
    const husk = await cutOff(host, found, { addresses, tableId });
    finder.forget(found.identity);
    known.forget(index);
    return husk && { husk };
  }

  /**
   * Deletes the husk whose other end an interface inside a pod is, as of a DEL
   * that has been answered already. False when it is not a husk's and still there.
   */
  async removePeer(end: PodEnd): Promise<boolean> {
    const link = await findHostEnd(end);
    const parsed = link && parseLink(link);
    if (link === undefined || parsed?.kind !== "husk") {
      const { index } = end.link;
      return await end.pod.getLink({ index }) === undefined;
    }
    await this.remove({ link, identity: parsed.identity, state: "husk" });
    return true;
  }

  /** Deletes a link that is in the way of a new one. */
  async remove(found: FoundLink): Promise<void> {
    const { deletions, finder, known, reaper } = this.#with;
    const { index } = found.link;
    finder.forget(found.identity);
    known.forget(index);
    if (found.state === "husk") return await reaper.delete(huskOf(found));
    const [error] = await deletions.tryExecute([linkDelete({ index })]);
    if (error !== undefined && !isGone(error)) throw error;
  }
}
