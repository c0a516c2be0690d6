import {
  BLOCK_REQUESTS,
  type BlockRequest,
  blockRequestNames,
  blockRequestResult,
  newBlockRequest,
  overlapInMessage,
  REASON_OUT_OF_BLOCKS,
  REASON_POOL_NOT_FOUND,
  REASON_POOL_PAUSED,
} from "../../../lib/api/mod.ts";
import {
  Backoff,
  Gate,
  jittered,
  type Loops,
  retry,
  sleep,
} from "../../../lib/async/mod.ts";
import {
  OutOfBlocksError,
  PoolNotFoundError,
  PoolPausedError,
} from "../../../lib/ipam/mod.ts";
import {
  Controller,
  KubeApiError,
  type KubeClient,
  unlessGone,
} from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import type { NodeFacts, NodeSource } from "../cluster/node_source.ts";
import { answerOf, isAnswered, uidOf } from "./request_answer.ts";

const log = getLogger("node-ipam");

/** A request without a waiting ADD is looked at about this often, until it is answered. */
const UNAWAITED_MS = 30_000;

/**
 * An answer without a waiting ADD stays this long, so that the next ADD of the
 * pool finds it rather than asking for a second block.
 */
const LATE_ANSWER_MS = 15_000;

/** Pauses while a request that is deleted keeps its name, as with a finalizer of another program. */
const LEAVING = { initialMs: 100, maxMs: 5_000 };

export interface BlockRequestsOptions {
  readonly client: KubeClient;
  /** The own Node, whose deletion shall take its requests along. */
  readonly node: NodeSource;
  /** A block was allocated for which no ADD waits any longer. */
  readonly onLateAnswer?: (block: string) => void;
}

/**
 * Asks the controller for blocks by BlockRequest objects.
 *
 * A request outlives the ADD that made it: when an answer comes too late, the
 * next ADD finds the same request, pending or answered, so one need never
 * costs two blocks. A request is deleted only after its answer was used.
 *
 * A request is watched by its name, and only while an ADD waits for it: the
 * API server has watches of one name in an index, and would compare those with
 * a label, one from each node, with every request that is written.
 */
export class BlockRequests {
  readonly #client: KubeClient;
  readonly #node: NodeSource;
  readonly #onLateAnswer: (block: string) => void;
  readonly #cleaner: Controller;
  /** Requests as they were seen last, by name, until they are deleted. */
  readonly #seen = new Map<string, BlockRequest>();
  /** UIDs of requests whose answer was used, until they are deleted. */
  readonly #spent = new Set<string>();
  /** UIDs of requests with an answer that no ADD waited for, until they are deleted. */
  readonly #late = new Set<string>();
  /** Names of requests that an ADD waits for. */
  readonly #awaited = new Set<string>();
  readonly #primed = new Gate();

  constructor(options: BlockRequestsOptions) {
    this.#client = options.client;
    this.#node = options.node;
    this.#onLateAnswer = options.onLateAnswer ?? (() => {});
    this.#cleaner = new Controller({
      name: "answered-requests",
      reconcile: (name, signal) => this.#clean(name, signal),
    });
  }

  /** Resolves when the requests of before the start are known. Rejects only by the signal. */
  async synced({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    await this.#primed.wait({ signal });
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Loops {
    return {
      "earlier requests": (signal) =>
        retry(() => this.#prime(signal), { signal }),
      "request cleaner": (signal) => this.#cleaner.run(signal),
    };
  }

  /**
   * Takes answers from before the start as used: the live list of blocks at
   * the start, which comes after this, finds their blocks anyway.
   */
  async #prime(signal: AbortSignal): Promise<void> {
    // Without a limit, with which Kubernetes 1.33.0 to 1.33.2 asks etcd for all requests.
    const { items } = await this.#client.list(BLOCK_REQUESTS, {
      labelSelector: `${NODE_LABEL}=${this.#node.name}`,
      signal,
    });
    for (const request of items) {
      const { name = "" } = request.metadata;
      this.#seen.set(name, request);
      if (isAnswered(request)) this.#use(request);
      else this.#cleaner.enqueue(name, { afterMs: jittered(UNAWAITED_MS) });
    }
    this.#primed.open();
  }

  /**
   * Asks for a block of a pool and waits for the answer.
   *
   * @returns the name of the AddressBlock given.
   * @throws {OutOfBlocksError} when the controller refuses.
   */
  async ask(
    pool: string,
    { signal }: { signal: AbortSignal },
  ): Promise<string> {
    const names = blockRequestNames(pool, this.#node.name);
    for (const name of names) this.#awaited.add(name);
    let isDone = false;
    try {
      for (;;) {
        const request = await this.#ensure(names, pool, signal);
        const answered = await answerOf(request, {
          client: this.#client,
          signal,
        });
        if (answered === undefined) continue; // deleted in between
        this.#use(answered);
        isDone = true;
        const result = blockRequestResult(answered);
        if (result.state === "complete") return result.block;
        if (result.state === "failed") throw refusal(pool, result);
      }
    } finally {
      for (const name of names) {
        this.#awaited.delete(name);
        // It may have been made, or answered, although this wait failed.
        if (!isDone) this.#cleaner.enqueue(name);
      }
    }
  }

  /** The request under one of these names whose answer is still to be used, made if needed. */
  async #ensure(
    names: readonly string[],
    pool: string,
    signal: AbortSignal,
  ): Promise<BlockRequest> {
    const node = await this.#node.get({ signal });
    for (const name of this.#earlier(names, pool, node)) {
      const request = await this.#ensureNamed(name, { pool, node, signal });
      if (request !== undefined) return request;
      log.warn("The name of a block request is taken by another object", {
        pool,
        request: name,
      });
    }
    const taken = names.map((name) => `"${name}"`).join(", ");
    throw new OutOfBlocksError(
      pool,
      `the BlockRequests ${taken} are not of this pool and node; delete those that are not needed`,
    );
  }

  /** A request that is under way is to be found under any name that it was made with. */
  #earlier(
    names: readonly string[],
    pool: string,
    node: NodeFacts,
  ): readonly string[] {
    const isOwn = (name: string) => {
      const known = this.#seen.get(name);
      return known !== undefined && this.#isUsable(known, pool, node);
    };
    const own = names.filter(isOwn);
    return [...own, ...names.filter((name) => !own.includes(name))];
  }

  /** The same under one name; undefined when that is a request of another pool or node. */
  async #ensureNamed(
    name: string,
    { pool, node, signal }: {
      readonly pool: string;
      readonly node: NodeFacts;
      readonly signal: AbortSignal;
    },
  ): Promise<BlockRequest | undefined> {
    let pauses: Backoff | undefined;
    let deletedUid: string | undefined;
    for (;;) {
      signal.throwIfAborted();
      try {
        const wanted = labelled(name, pool, node);
        const made = await this.#client.create(BLOCK_REQUESTS, wanted, {
          signal,
        });
        this.#seen.set(name, made);
        return made;
      } catch (error) {
        if (!(error instanceof KubeApiError && error.isAlreadyExists)) {
          throw error;
        }
      }
      const found = await this.#client.tryGet(BLOCK_REQUESTS, { name, signal });
      if (found === undefined) continue;
      if (!isOf(found, pool, node)) return undefined;
      if (this.#isUsable(found, pool, node)) {
        log.info("Waiting for an earlier block request", {
          pool,
          request: name,
        });
        this.#seen.set(name, found);
        return found;
      }
      await this.#delete(found, signal);
      const uid = uidOf(found);
      if (uid === deletedUid) {
        if (pauses === undefined) {
          log.warn("A deleted block request is still there; waiting", {
            pool,
            request: name,
            finalizers: found.metadata.finalizers,
          });
        }
        pauses ??= new Backoff(LEAVING);
        await sleep(pauses.nextMs(), { signal });
      }
      deletedUid = uid;
    }
  }

  #isUsable(request: BlockRequest, pool: string, node: NodeFacts): boolean {
    return isOf(request, pool, node) &&
      request.metadata.deletionTimestamp === undefined &&
      !this.#spent.has(uidOf(request)) &&
      blockRequestResult(request).state !== "failed" &&
      // The owner of a request of an earlier Node of this name is gone, so
      // Kubernetes is about to delete it.
      (request.metadata.ownerReferences ?? []).some((owner) =>
        owner.uid === node.uid
      );
  }

  #use(request: BlockRequest): void {
    const { name = "" } = request.metadata;
    this.#seen.set(name, request);
    this.#spent.add(uidOf(request));
    this.#cleaner.enqueue(name);
  }

  /** Deletes a request whose answer was used, or that no ADD waits for. */
  async #clean(name: string, signal: AbortSignal): Promise<void> {
    // The waiting ADD decides; what it leaves comes here again.
    if (this.#awaited.has(name)) return;
    const seen = this.#seen.get(name);
    if (seen !== undefined && this.#spent.has(uidOf(seen))) {
      return await this.#delete(seen, signal);
    }
    const live = await this.#client.tryGet(BLOCK_REQUESTS, { name, signal });
    if (live === undefined || live.spec.nodeName !== this.#node.name) {
      // mutate: only frees memory; a name that is tried first for it is as good.
      this.#seen.delete(name);
      return;
    }
    this.#seen.set(name, live);
    if (!isAnswered(live)) {
      return this.#cleaner.enqueue(name, { afterMs: jittered(UNAWAITED_MS) });
    }
    if (this.#late.has(uidOf(live))) return await this.#delete(live, signal);
    this.#late.add(uidOf(live));
    const result = blockRequestResult(live);
    if (result.state === "complete") this.#onLateAnswer(result.block);
    this.#cleaner.enqueue(name, { afterMs: LATE_ANSWER_MS });
  }

  async #delete(request: BlockRequest, signal: AbortSignal): Promise<void> {
    const uid = uidOf(request);
    const { name = "" } = request.metadata;
    const target = { name, preconditions: { uid }, signal };
    await unlessGone(() => this.#client.delete(BLOCK_REQUESTS, target));
    // mutate: only frees memory.
    this.#spent.delete(uid);
    // mutate: only frees memory.
    this.#late.delete(uid);
    const seen = this.#seen.get(name);
    // mutate: only frees memory; a name that is tried first for it is as good.
    if (seen !== undefined && uidOf(seen) === uid) this.#seen.delete(name);
  }
}

function refusal(
  pool: string,
  { reason, message }: { readonly reason: string; readonly message: string },
): Error {
  if (reason === REASON_POOL_NOT_FOUND) return new PoolNotFoundError(pool);
  if (reason === REASON_POOL_PAUSED) return new PoolPausedError(pool);
  if (reason === REASON_OUT_OF_BLOCKS || message === "") {
    return new OutOfBlocksError(pool, reason, overlapInMessage(pool, message));
  }
  return new OutOfBlocksError(pool, `${reason}: ${message}`);
}

function isOf(
  { spec }: BlockRequest,
  pool: string,
  node: NodeFacts,
): boolean {
  return spec.poolName === pool && spec.nodeName === node.name;
}

function labelled(name: string, pool: string, node: NodeFacts): BlockRequest {
  if (node.uid === "") {
    throw new NotReadyError(
      `Cannot ask for a block of pool "${pool}": the UID of Node "${node.name}" is not known`,
    );
  }
  const request = newBlockRequest(pool, node);
  const labels = { [POOL_LABEL]: pool, [NODE_LABEL]: node.name };
  return { ...request, metadata: { ...request.metadata, name, labels } };
}
