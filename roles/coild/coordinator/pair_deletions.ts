import { Backoff, retry, TaskGroup } from "../../../lib/async/mod.ts";
import {
  type CoordinatorHusk,
  discardHusks,
  huskOf,
} from "../../../lib/coordinator/mod.ts";
import { sameKey } from "../../../lib/cni/mod.ts";
import { RouteSocket } from "../../../lib/netlink/mod.ts";
import { HuskReaper } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";

const log = getLogger("coordinator");

/** Deletes pairs that DEL has cut off, many at once and behind the callers' backs. */
export class PairDeletions implements AsyncDisposable {
  readonly #socket: RouteSocket;
  readonly #reaper: HuskReaper<CoordinatorHusk>;
  readonly #background = new TaskGroup();

  private constructor(socket: RouteSocket) {
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

  /** Resolves at once; what cannot be deleted is tried again. */
  discard(husk: CoordinatorHusk): Promise<void> {
    const { containerId, ifname: iface } = husk;
    this.#background.run(
      `deletion of the pair of ${containerId}`,
      (signal) =>
        retry(() => this.#reaper.delete(husk), {
          signal,
          backoff: new Backoff({ initialMs: 50, maxMs: 5_000 }),
          shouldRetry(err) {
            log.warn("Cannot delete a pair yet", { containerId, iface, err });
            return true;
          },
        }),
    );
    return Promise.resolve();
  }

  /** Takes up what an earlier coild has left. */
  async resume(): Promise<void> {
    await discardHusks(this, await this.#socket.listLinks());
  }

  /** Gives up; the next start goes on. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#background[Symbol.asyncDispose]();
    this.#socket[Symbol.dispose]();
  }
}
