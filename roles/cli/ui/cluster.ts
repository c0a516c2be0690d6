import { ADDRESS_POOLS } from "../../../lib/api/mod.ts";
import {
  abortable,
  CoalescedRunner,
  everyAbout,
  jittered,
  sleep,
  type TaskGroup,
} from "../../../lib/async/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  type KubeObject,
  KubeUnreachableError,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import type { Unseen } from "../base/looker.ts";
import type { Feed } from "./feed.ts";
import { Follower, type FollowOptions } from "./follower.ts";
import {
  entriesOf,
  followSources,
  type PartName,
  PARTS,
  type Sources,
} from "./sources.ts";
import type { ContactView } from "./view.ts";

/** How long changes are gathered at least. */
const GATHER_MS = 500;

/** Making the entries takes a fifth of a processor at most. */
const PAUSES = 4;

/** How often to look at what only time changes, e.g. a lease that was not renewed. */
const LOOK_MS = 10_000;

/** How often to ask whether the API server still answers, and how long it may take. */
const ASK_MS = 3_000;
const ANSWER_MS = 5_000;

/** Follows a cluster and publishes what the page shows of it. */
export class Cluster {
  readonly #client: KubeClient;
  readonly #feed: Feed;
  readonly #tasks: TaskGroup;
  readonly #runners: Readonly<Record<PartName, CoalescedRunner>>;
  readonly #followers: {
    readonly follower: Pick<Follower<KubeObject>, "ready" | "unseen">;
    readonly parts: readonly PartName[];
  }[] = [];
  readonly #sources: Sources;

  private constructor(client: KubeClient, feed: Feed, tasks: TaskGroup) {
    this.#client = client;
    this.#feed = feed;
    this.#tasks = tasks;
    this.#runners = {
      status: this.#runnerOf("status"),
      map: this.#runnerOf("map"),
      topology: this.#runnerOf("topology"),
    };
    this.#sources = followSources((...args) => this.#follow(...args));
  }

  /**
   * Begins to follow a cluster; the tasks end it.
   *
   * @throws {KubeUnreachableError} when the API server does not answer now
   */
  static async start(
    client: KubeClient,
    { feed, tasks }: { readonly feed: Feed; readonly tasks: TaskGroup },
  ): Promise<void> {
    await ask(client, tasks.signal);
    const cluster = new Cluster(client, feed, tasks);
    for (const part of PARTS) {
      tasks.run(part, (signal) => cluster.#publish(part, signal));
    }
    const { status } = cluster.#runners;
    tasks.run(
      "time",
      (signal) => everyAbout(LOOK_MS, () => status.trigger(), { signal }),
    );
    tasks.run("contact", (signal) => cluster.#watchContact(signal));
  }

  #follow<T extends KubeObject>(
    type: ResourceType<T>,
    parts: readonly PartName[],
    options: FollowOptions<T> = {},
  ): Follower<T> {
    const follower = new Follower(this.#client, type, {
      ...options,
      onChange: () => parts.forEach((part) => this.#runners[part].trigger()),
    });
    this.#followers.push({ follower, parts });
    this.#tasks.run(type.plural, (signal) => follower.run(signal));
    return follower;
  }

  /** What cannot be read, each kind once. */
  #unseen(): Unseen[] {
    const all = this.#followers.flatMap(({ follower }) => follower.unseen);
    return [...new Map(all.map((one) => [one.what, one])).values()];
  }

  #runnerOf(part: PartName): CoalescedRunner {
    return new CoalescedRunner(async (signal) => {
      const startMs = performance.now();
      const entries = entriesOf(part, this.#sources, {
        cluster: this.#client.host,
        unseen: this.#unseen(),
        now: new Date(),
      });
      this.#feed.publish(part, entries);
      await sleep(PAUSES * (performance.now() - startMs), { signal });
    }, { minIntervalMs: GATHER_MS });
  }

  /** Half of what a part is made of would look like problems: it is published when all of it is there. */
  async #publish(part: PartName, signal: AbortSignal): Promise<void> {
    for (const { follower, parts } of this.#followers) {
      if (parts.includes(part)) await abortable(follower.ready, signal);
    }
    const runner = this.#runners[part];
    runner.trigger();
    await runner.run(signal);
  }

  /** Says since when the API server does not answer: what is shown is as old. */
  async #watchContact(signal: AbortSignal): Promise<void> {
    let contact: ContactView = {};
    for (;;) {
      contact = await isAway(this.#client, signal)
        ? { lostSince: contact.lostSince ?? new Date().toISOString() }
        : {};
      this.#feed.publish(
        "contact",
        new Map([["contact", JSON.stringify(contact)]]),
      );
      await sleep(jittered(ASK_MS), { signal });
    }
  }
}

async function isAway(
  client: KubeClient,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await ask(client, signal);
    return false;
  } catch (error) {
    if (!(error instanceof KubeUnreachableError)) throw error;
    return true;
  }
}

/**
 * Any answer will do, a refusal, too.
 *
 * @throws {KubeUnreachableError} when there is none
 * @throws {KubeApiError} when the credentials are not taken
 */
async function ask(client: KubeClient, signal: AbortSignal): Promise<void> {
  try {
    await client.list(ADDRESS_POOLS, {
      limit: 1,
      timeoutMs: ANSWER_MS,
      signal,
    });
  } catch (error) {
    if (!(error instanceof KubeApiError)) throw error;
    if (error.isUnauthorized) throw error;
    if (error.status < 500) return;
    throw new KubeUnreachableError(error.message, { cause: error });
  }
}
