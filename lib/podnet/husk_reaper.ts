import {
  type Link,
  linkDelete,
  linkSet,
  type NetlinkError,
  type RouteSocket,
} from "../netlink/mod.ts";
import { getLogger } from "../telemetry/mod.ts";
import { HUSK_LINK_GROUP } from "../names/mod.ts";
import { type LinkIdentity, parseAlias, sameKey } from "./alias.ts";

/** A host veth that is cut off from everything and waits for its deletion. */
export interface Husk extends LinkIdentity {
  /** Index of the link. */
  readonly index: number;
  /** The link group it was put into, so that one request deletes it with others. */
  readonly group: number;
}

/** How many group numbers to try, counted from the first. */
const MAX_GROUPS = 1000;

/**
 * Deletes husks, many at once. Deleting a veth costs the kernel a grace period
 * of some 15 ms, but all links of one request share it. So while one deletion
 * runs, husks that come meanwhile wait and then go together, by one
 * RTM_DELLINK that names a link group.
 *
 * Such a request deletes whatever is in the group. Two rules keep it away from
 * the links of others: the group is chosen such that it holds nothing but
 * husks, and before each deletion the links are listed and the rule is checked
 * again. If it does not hold any more, the husks are deleted one by one and
 * the next ones get another group. (A program that moved a link of its own
 * into just this group within the fraction of a millisecond between list and
 * deletion would lose it. No program does so by chance: a link is in group 0
 * until somebody picks a number for it.)
 */
export class HuskReaper {
  readonly #socket: RouteSocket;
  /** Husks that the next deletion will take. */
  #waiting: Husk[] = [];
  #next: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();
  #group: number = HUSK_LINK_GROUP;

  /** The socket is used by nobody else: a deletion keeps it busy for long. It stays the caller's. */
  constructor(socket: RouteSocket) {
    this.#socket = socket;
  }

  /** The group that new husks are to be put into. */
  get group(): number {
    return this.#group;
  }

  /** Picks the group, given all links of the host. */
  chooseGroup(links: readonly Link[]): void {
    const foreign = new Set(
      links.filter((link) => !isHusk(link)).map(({ group }) => group),
    );
    for (let i = 0; i < MAX_GROUPS; i++) {
      if (foreign.has(HUSK_LINK_GROUP + i)) continue;
      this.#group = HUSK_LINK_GROUP + i;
      return;
    }
    throw new RangeError(
      `Cannot choose a link group: all from ${HUSK_LINK_GROUP} on are in use`,
    );
  }

  /**
   * Returns when the husk is gone. One that vanished by itself, because the
   * pod's network namespace did, is gone too.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async delete(husk: Husk): Promise<void> {
    this.#waiting.push(husk);
    this.#next ??= this.#afterRunning();
    await this.#next;
  }

  /**
   * Deletes husks of any group, such as those of a former process, all at once.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async deleteAll(husks: readonly Husk[]): Promise<void> {
    const group = this.#group;
    const moved = husks.filter((husk) => husk.group !== group);
    const errors = await this.#socket.tryExecute(
      moved.map(({ index }) => linkSet({ index }, { group })),
    );
    const refused = errors.find((error) => error && !isGone(error));
    if (refused !== undefined) throw refused;
    await Promise.all(husks.map((husk) => this.delete({ ...husk, group })));
  }

  async #afterRunning(): Promise<void> {
    await this.#running.catch(ignoreFailure);
    const batch = this.#waiting;
    this.#waiting = [];
    this.#running = this.#deleteBatch(batch);
    this.#next = undefined;
    await this.#running;
  }

  async #deleteBatch(batch: readonly Husk[]): Promise<void> {
    const links = await this.#socket.listLinks();
    const intruders = links.filter((link) =>
      link.group === this.#group && !isHusk(link)
    );
    if (intruders.length > 0) {
      getLogger("pod-network").error("Found foreign links in the husk group", {
        group: this.#group,
        links: intruders.map(({ name }) => name),
      });
      this.chooseGroup(links);
    }
    const group = this.#group;
    const left = batch.filter((husk) =>
      links.some((link) => isLinkOf(link, husk))
    );
    const single = left.filter((husk) => husk.group !== group);
    const requests = single.map(({ index }) => linkDelete({ index }));
    if (single.length < left.length) requests.push(linkDelete({ group }));
    const errors = await this.#socket.tryExecute(requests);
    const refused = errors.find((error) => error && !isGone(error));
    if (refused !== undefined) throw refused;
  }
}

/** Whether a link is a husk by its alias. */
export function isHusk(link: Link): boolean {
  return parseAlias(link.alias).kind === "husk";
}

/** Whether a link is this husk, or was not renamed to one because its alias would be too long. */
function isLinkOf(link: Link, husk: Husk): boolean {
  if (link.index !== husk.index) return false;
  const parsed = parseAlias(link.alias);
  return (parsed.kind === "husk" || parsed.kind === "pod") &&
    sameKey(parsed.identity, husk);
}

/** ENODEV: no such link, or no link in the group. */
export function isGone(error: NetlinkError): boolean {
  return error.code === "ENODEV";
}

/** The callers of that batch have got its failure; it is no reason not to go on. */
function ignoreFailure(): void {}
