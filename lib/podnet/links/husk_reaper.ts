import { POD_LINK_GROUP } from "../../names/mod.ts";
import {
  type Link,
  linkDeletions,
  type NetlinkError,
  type RandomBytes,
  type RouteSocket,
} from "../../netlink/mod.ts";
import { type LinkIdentity, parseLink } from "../base/alias.ts";
import { sameKey } from "../../cni/mod.ts";

/** A host veth that is cut off from everything and waits for its deletion. */
export interface Husk extends LinkIdentity {
  /** Index of the link. */
  readonly index: number;
}

export interface HuskReaperOptions<T> {
  readonly random?: RandomBytes | undefined;
  /** Whether the link with a husk's index is still that husk. */
  readonly isHusk: (link: Link, husk: T) => boolean;
}

/** What is asked and changed by deletions. */
export type DeletionSocket = Pick<RouteSocket, "listLinks" | "tryExecute">;

/**
 * Deletes husks, many at once. Deleting a veth costs the kernel a grace period
 * of some 15 ms, but all links of one request share it. So while one deletion
 * runs, husks that come in the meantime wait and then go together. Before that the
 * links are listed, so that only husks that are still there are deleted, by
 * their indexes.
 */
export class HuskReaper<T extends Pick<Husk, "index"> = Husk> {
  readonly #socket: DeletionSocket;
  readonly #with: HuskReaperOptions<T>;
  /** Husks that the next deletion will take. */
  #waiting: T[] = [];
  #next: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();

  /** The socket is for deletions alone, since one keeps it busy for long. The caller closes it. */
  constructor(socket: DeletionSocket, options: HuskReaperOptions<T>) {
    this.#socket = socket;
    this.#with = options;
  }

  /**
   * Returns when the husk is gone. One that vanished by itself, because the
   * pod's network namespace did, is gone too.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async delete(husk: T): Promise<void> {
    this.#waiting.push(husk);
    this.#next ??= this.#afterRunning();
    await this.#next;
  }

  async #afterRunning(): Promise<void> {
    await this.#running.catch(ignoreFailure);
    const batch = this.#waiting;
    this.#waiting = [];
    this.#running = this.#deleteBatch(batch);
    this.#next = undefined;
    await this.#running;
  }

  async #deleteBatch(batch: readonly T[]): Promise<void> {
    const { isHusk, random } = this.#with;
    const links = await this.#socket.listLinks();
    const left = links.filter((link) =>
      batch.some((husk) => link.index === husk.index && isHusk(link, husk))
    ).map(({ index }) => index);
    if (left.length === 0) return;
    const errors = await this.#socket.tryExecute(
      linkDeletions(left, {
        present: links,
        random,
        // Else the node would take what the pods send from any source.
        groupLow: POD_LINK_GROUP,
      }),
    );
    const refused = errors.find((error) => error && !isGone(error));
    if (refused !== undefined) throw refused;
  }
}

/** Whether a link is this husk, or was not renamed to one because its alias would be too long. */
export function isLinkOf(link: Link, husk: Husk): boolean {
  const parsed = parseLink(link);
  return (parsed.kind === "husk" || parsed.kind === "pod") &&
    sameKey(parsed.identity, husk);
}

/** ENODEV: no such link, or no link in the group. */
export function isGone(error: NetlinkError): boolean {
  return error.code === "ENODEV";
}

/** The callers of that batch have got its failure; the next batch goes on. */
function ignoreFailure(): void {}
