import { formatAge } from "../../../lib/api/mod.ts";
import { Gate, jittered, sleep } from "../../../lib/async/mod.ts";
import {
  Informer,
  type InformerOptions,
  KubeApiError,
  type KubeClient,
  type KubeObject,
  KubeUnreachableError,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import type { Unseen } from "../base/looker.ts";

/** How long until objects that could not be read are asked for again. */
const ASK_AGAIN_MS = 30_000;

/** The API server shows at least every minute that a watch goes on: see Informer. */
const STALE_MS = 150_000;

/** Resource to follow, and a filter. */
export interface FollowOptions<T> extends InformerOptions<T> {
  /** Most clusters have none: that they cannot be read is not worth a word. */
  readonly isOptional?: boolean;
}

/** Follows objects that the user may not be allowed to read, or that the cluster does not have. */
export class Follower<T extends KubeObject> {
  readonly #informer: Informer<T>;
  readonly #client: KubeClient;
  readonly #type: ResourceType<T>;
  readonly #options: FollowOptions<T>;
  readonly #refused = new Gate();
  #why: Unseen["why"] | undefined;

  constructor(
    client: KubeClient,
    type: ResourceType<T>,
    options: FollowOptions<T> = {},
  ) {
    this.#client = client;
    this.#type = type;
    this.#options = options;
    this.#informer = new Informer(client, type, options);
  }

  /** Resolves when all of them have been read, or cannot be. */
  get ready(): Promise<void> {
    return Promise.race([this.#informer.synced, this.#refused.wait()]);
  }

  /** Undefined while they cannot be read. */
  get objects(): T[] | undefined {
    return this.#informer.hasSynced ? this.#informer.store.list() : undefined;
  }

  /** Why they cannot be read, or are not current. */
  get unseen(): Unseen[] {
    if (this.#options.isOptional === true) return [];
    const what = this.#type.plural;
    if (this.#why !== undefined) return [{ what, why: this.#why }];
    const ageMs = this.#informer.hasSynced ? this.#informer.lastSyncAgeMs : 0;
    if (ageMs < STALE_MS) return [];
    const now = new Date();
    const since = new Date(now.getTime() - ageMs).toISOString();
    const detail = `as they were ${formatAge(since, now)} ago`;
    return [{ what, why: "unknown", detail }];
  }

  /** Follows them until the signal, as soon as they can be read. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#why = await this.#refusal(signal);
      if (this.#why === undefined) break;
      this.#refused.open();
      await sleep(jittered(ASK_AGAIN_MS), { signal });
    }
    await this.#informer.run(signal);
  }

  /** Why they cannot be followed: asked by a watch that ends when it begins, since who may list may not watch. */
  async #refusal(signal: AbortSignal): Promise<Unseen["why"] | undefined> {
    const { labelSelector, fieldSelector } = this.#options;
    const begun = new AbortController();
    const watch = this.#client.watch(this.#type, {
      labelSelector,
      fieldSelector,
      resourceVersion: "0",
      signal: AbortSignal.any([signal, begun.signal]),
      onOpen: () => begun.abort(),
    });
    try {
      for await (const _ of watch) break;
    } catch (error) {
      signal.throwIfAborted();
      if (begun.signal.aborted) return undefined;
      if (error instanceof KubeUnreachableError) return undefined; // the informer tries again
      if (!(error instanceof KubeApiError)) throw error;
      if (error.isForbidden) return "forbidden";
      if (error.isNotFound) return "not served";
      if (!error.isOutage) throw error;
    }
    return undefined;
  }
}
