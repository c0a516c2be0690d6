import type { Link, RouteSocket } from "../../netlink/mod.ts";
import { type LinkIdentity, parseLink } from "../base/alias.ts";
import { calicoVethName, hostVethName, MAX_SALT } from "../base/host_name.ts";
import { type AttachmentKey, keyText, sameKey } from "../../cni/mod.ts";
import type { NamespacedName } from "../../names/mod.ts";

/** A host veth of a key. */
export interface FoundLink {
  readonly link: Link;
  /** By the alias. An unfinished one has no alias; its pool is not known. */
  readonly identity: LinkIdentity;
  /** `unfinished`: made by an ADD that was killed before it gave the link its alias. */
  readonly state: "pod" | "husk" | "unfinished";
}

/** Relation of a link to a key: its own, or another's. */
export type Ownership = FoundLink | "other";

/** Finds host veths by key: by their name where it follows from the key, else by alias among all links. */
export class LinkFinder {
  readonly #socket: RouteSocket;
  readonly #lists: RouteSocket;
  readonly #calico: boolean;
  /** Links of ours whose names do not follow from their keys: made by upstream Coil, or in Calico mode. */
  readonly #irregular = new Map<string, number>();

  /** `lists` is for long listings, which keep a socket busy. */
  constructor(
    sockets: { readonly host: RouteSocket; readonly lists: RouteSocket },
    options: { readonly calico: boolean },
  ) {
    this.#socket = sockets.host;
    this.#lists = sockets.lists;
    this.#calico = options.calico;
  }

  /** Remembers the links whose names do not follow from their keys. */
  remember(
    links: readonly (LinkIdentity & { index: number; hostName: string })[],
  ): void {
    for (const link of links) {
      if (link.hostName === hostVethName(link)) continue;
      this.#irregular.set(keyText(link), link.index);
    }
  }

  /** Forgets a link that is going away. */
  forget(key: AttachmentKey): void {
    this.#irregular.delete(keyText(key));
  }

  /** The names that an ADD may give to a key's link, in the order of preference. */
  namesFor(key: AttachmentKey, pod?: NamespacedName): string[] {
    if (this.#calico && pod !== undefined) return [calicoVethName(pod)];
    return Array.from({ length: MAX_SALT + 1 }, (_, i) => hostVethName(key, i));
  }

  /** A link of the key that has a name which an ADD of that key would not run into. */
  async findIrregular(key: AttachmentKey): Promise<FoundLink | undefined> {
    const index = this.#irregular.get(keyText(key));
    if (index === undefined) return undefined;
    const link = await this.#socket.getLink({ index });
    const found = link && this.classify(link, key);
    if (
      found !== undefined && found !== "other" && found.state !== "unfinished"
    ) {
      return found;
    }
    // mutate: only saves a look the next time.
    this.forget(key);
    return undefined;
  }

  /** Finds a key's link. Lists all links only when its names lead nowhere. */
  async find(
    key: AttachmentKey,
    pod?: NamespacedName,
  ): Promise<FoundLink | undefined> {
    const irregular = await this.findIrregular(key);
    if (irregular !== undefined) return irregular;
    const byPod = this.#calico && pod !== undefined;
    for (const name of this.namesFor(key, pod)) {
      const link = await this.#socket.getLink({ name });
      if (link === undefined) break;
      const found = this.classify(link, key);
      if (found === "other") continue;
      // A name out of the pod's is that of all its containers. Without an alias it may be the link of another one that
      // Coil v1 connected, and which lives. What a killed ADD left there goes with its namespace, or makes way for the next.
      if (byPod && found.state === "unfinished") continue;
      return found;
    }
    return linksOf(key, await this.#lists.listLinks())[0];
  }

  /**
   * Whether a link of one of the key's names belongs to the key. A veth of
   * such a name without an alias is what a killed ADD left: no other program
   * makes names out of a hash of our key. Only a name in Calico mode, out of a hash
   * of the pod's, was given by Coil v1 as well; the next ADD of the pod may
   * have it all the same.
   */
  classify(link: Link, key: AttachmentKey): Ownership {
    const parsed = parseLink(link);
    if (parsed.kind === "pod" || parsed.kind === "husk") {
      return sameKey(parsed.identity, key)
        ? { link, identity: parsed.identity, state: parsed.kind }
        : "other";
    }
    if (link.alias !== undefined || link.kind !== "veth") return "other";
    return { link, identity: { pool: "", ...key }, state: "unfinished" };
  }
}

/** Those of the links that are a key's by their alias, pods and husks. */
export function linksOf(
  key: AttachmentKey,
  links: readonly Link[],
): FoundLink[] {
  return links.flatMap((link): FoundLink[] => {
    const parsed = parseLink(link);
    if (parsed.kind !== "pod" && parsed.kind !== "husk") return [];
    const { identity, kind: state } = parsed;
    return sameKey(identity, key) ? [{ link, identity, state }] : [];
  });
}
