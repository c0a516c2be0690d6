import { Backoff, retry, TaskGroup } from "../../../lib/async/mod.ts";
import {
  type CoordinatorHusk,
  huskOf,
  type Outside,
} from "../../../lib/coordinator/mod.ts";
import { sameKey } from "../../../lib/cni/mod.ts";
import { RouteSocket } from "../../../lib/netlink/mod.ts";
import { type DeletionSocket, HuskReaper } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";

const log = getLogger("coordinator");

/** Deletes pairs that DEL has cut off, many at once and behind the callers' backs. */
export class PairDeletions implements AsyncDisposable {
  readonly #socket: Disposable;
  readonly #reaper: HuskReaper<CoordinatorHusk>;
  readonly #background = new TaskGroup();
  /** The indexes of husks that are worked on. */
  readonly #pending = new Set<number>();

  /** The socket is in the host's network namespace; it is closed with this. */
  constructor(socket: DeletionSocket & Disposable) {
    this.#socket = socket;
    this.#reaper = new HuskReaper<CoordinatorHusk>(socket, {
      isHusk(link, husk) {
        const found = huskOf(link);
        return found !== undefined && sameKey(found, husk);
      },
    });
  }

  /** `hostNetns` absent: the process's own. */
  static open(hostNetns?: Netns): PairDeletions {
    return new PairDeletions(RouteSocket.open({ netns: hostNetns }));
  }

  /** The same kernel, with what takes a grace period behind the callers' backs. */
  behind<T>(machine: T): T & Pick<Outside, "discard" | "later"> {
    return {
      ...machine,
      later: (work) =>
        this.#background.run("closing of a socket", () => closed(work)),
      discard: (husk) => this.discard(husk),
    };
  }

  /** Resolves at once; what cannot be deleted is tried again. */
  discard(husk: CoordinatorHusk): Promise<void> {
    if (this.#pending.has(husk.index)) return Promise.resolve();
    // mutate: a husk that is worked on twice is deleted once.
    this.#pending.add(husk.index);
    this.#background.run(
      `deletion of the pair of ${husk.containerId}`,
      (signal) =>
        this.#delete(husk, signal)
          .finally(() => this.#pending.delete(husk.index)),
    );
    return Promise.resolve();
  }

  async #delete(husk: CoordinatorHusk, signal: AbortSignal): Promise<void> {
    const { containerId, ifname: iface } = husk;
    await retry(() => this.#reaper.delete(husk), {
      signal,
      backoff: new Backoff({ initialMs: 50, maxMs: 5_000 }),
      shouldRetry(err) {
        log.warn("Failed to delete a pair that was cut off; retrying", {
          containerId,
          iface,
          err,
        });
        return true;
      },
    });
  }

  /** Gives up; the next start goes on. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#background[Symbol.asyncDispose]();
    this.#socket[Symbol.dispose]();
  }
}

/** Logged where it stops: a failure would end all other tasks of the group. */
async function closed(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (err) {
    log.warn("Failed to close a netlink socket of a call", { err });
  }
}
