import {
  CoalescedRunner,
  everyAbout,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import {
  type HostLook,
  keepHost,
  keepPod,
  openPeers,
  type Outside,
  type Peers,
} from "../../../lib/coordinator/mod.ts";
import {
  listen,
  type Listener,
  warnOfDeafness,
} from "../../../lib/netlink/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import type { CallsInFlight } from "../observe/calls_in_flight.ts";

const log = getLogger("coordinator");

/** Links of pods come with addresses, too: one look serves all that come in a second. */
const LEAST_MS = 1_000;
/** How often everything is looked at, even without notifications of the kernel. */
const LOOK_MS = 60_000;

/** The kernel, as one look uses it. */
type Surroundings = Pick<
  Outside,
  "discard" | "hostNetns" | "openNamespaces" | "openRoutes"
>;

export interface CoordinatorUpkeepOptions {
  /** Called once for each look. */
  readonly open: () => Surroundings;
  /** Listens to the host's addresses and rules. */
  readonly watch: () => Listener;
  /** The coordinator's. */
  readonly calls: Pick<CallsInFlight, "watch">;
  /** Default 1 s. */
  readonly leastMs?: number;
  /** Default about a minute. */
  readonly lookMs?: number;
}

/**
 * Keeps joined pods as ADD left them: addresses that the host gets later reach
 * them, and what the host has for them comes back.
 */
export class CoordinatorUpkeep {
  readonly #with: CoordinatorUpkeepOptions;
  readonly #runner: CoalescedRunner;
  readonly #failures = new RepeatFilter();
  /** The host's addresses that all pods know; undefined: look at the pods. */
  #announced: string | undefined;

  constructor(options: CoordinatorUpkeepOptions) {
    this.#with = options;
    this.#runner = new CoalescedRunner(() => this.#look(), {
      // mutate: only tests want another.
      minIntervalMs: options.leastMs ?? LEAST_MS,
    });
  }

  /** Listens and looks until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await using tasks = new TaskGroup({ signal });
    tasks.run("listening to the kernel", (s) => this.#listen(s));
    tasks.run("looking now and then", (s) => {
      const { lookMs = LOOK_MS } = this.#with;
      return everyAbout(lookMs, () => this.#lookAtAll(), { signal: s });
    });
    tasks.run("looking at joined pods", (s) => this.#runner.run(s));
    await tasks.wait();
  }

  async #listen(signal: AbortSignal): Promise<void> {
    await listen({
      watch: this.#with.watch,
      onStart: () => this.#lookAtAll(),
      onHeard: () => this.#runner.trigger(),
      onFailure: warnOfDeafness(log, "looking at the host every minute"),
      signal,
    });
  }

  #lookAtAll(): void {
    this.#announced = undefined;
    this.#runner.trigger();
  }

  async #look(): Promise<void> {
    try {
      const outside = this.#with.open();
      const isQuiet = this.#with.calls.watch();
      using host = outside.openRoutes(outside.hostNetns);
      const found = await keepHost(outside, host, { isQuiet });
      const changed = await this.#updatePods(outside, { ...found, isQuiet });
      if (found.isPartial) this.#runner.trigger();
      // mutate: it decides about a record alone.
      if (found.changed + changed === 0) return;
      log.info("Restored routes, rules and neighbours of pods", {
        onHost: found.changed,
        inPods: changed,
      });
    } catch (err) {
      this.#lookAtAll();
      // mutate: it decides about a record alone.
      if (!this.#failures.passes(err)) return;
      log.warn(
        "Failed to check routes, rules and neighbours of pods; retrying",
        { err },
      );
    }
  }

  /** Nothing when they know the addresses already. */
  async #updatePods(
    outside: Surroundings,
    { joined, hostAddresses, isQuiet }: HostLook & {
      readonly isQuiet: () => boolean;
    },
  ): Promise<number> {
    const addresses = hostAddresses.map(String).toSorted().join();
    if (addresses === this.#announced) return 0;
    this.#announced = addresses;
    let changed = 0;
    using peers = openPeers(outside);
    for (const link of joined) {
      // mutate: it is only recorded.
      changed += await this.#updatePod(peers, link, hostAddresses);
    }
    // A pod that came in the meantime may have what the host had before.
    if (!isQuiet()) this.#lookAtAll();
    return changed;
  }

  /** One that fails, as a pod with NET_ADMIN can arrange, must not keep the others from it. */
  async #updatePod(
    peers: Peers,
    link: HostLook["joined"][number],
    hostAddresses: HostLook["hostAddresses"],
  ): Promise<number> {
    try {
      return await keepPod(peers, link, hostAddresses);
    } catch (err) {
      if (this.#failures.passes(err)) {
        log.warn("Failed to check routes of a pod; retrying in a minute", {
          link: link.name,
          alias: link.alias,
          err,
        });
      }
      return 0;
    }
  }
}
