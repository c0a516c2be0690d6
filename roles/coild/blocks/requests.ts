import {
  BLOCK_REQUESTS,
  type BlockRequest,
  blockRequestNames,
  blockRequestResult,
  newBlockRequest,
  overlapInMessage,
  REASON_OUT_OF_BLOCKS,
  REASON_POOL_NOT_FOUND,
} from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { OutOfBlocksError, PoolNotFoundError } from "../../../lib/ipam/mod.ts";
import {
  Controller,
  Informer,
  KubeApiError,
  type KubeClient,
} from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { informerBackoff } from "../cluster/informer_backoff.ts";
import { NotReadyError } from "../base/errors.ts";
import type { NodeFacts, NodeSource } from "../cluster/node_source.ts";
import { Wakeup } from "./wakeup.ts";

const log = getLogger("node-ipam");

/** A waiting request is read live this often, in case its watch is slow. */
const RECHECK_MS = 1_000;

/**
 * An answer nobody waited for stays this long, so that the next ADD of the
 * pool finds it rather than asking for a second block.
 */
const LATE_ANSWER_MS = 15_000;

export interface BlockRequestsOptions {
  readonly client: KubeClient;
  /** The own Node, whose deletion shall take its requests along. */
  readonly node: NodeSource;
}

/**
 * Asks the controller for blocks by BlockRequest objects.
 *
 * A request outlives the ADD that made it: when an answer comes too late, the
 * next ADD finds the same request, pending or answered, so one need never
 * costs two blocks. A request is deleted only after its answer was used.
 */
export class BlockRequests {
  readonly #client: KubeClient;
  readonly #node: NodeSource;
  readonly #informer: Informer<BlockRequest>;
  readonly #cleaner: Controller;
  /** UIDs of requests whose answer was used, until they are deleted. */
  readonly #spent = new Set<string>();
  /** Names of requests that an ADD waits for. */
  readonly #awaited = new Set<string>();

  /** Resolves when the requests of before the start are known. Never rejects. */
  readonly synced: Promise<void>;

  constructor(options: BlockRequestsOptions) {
    this.#client = options.client;
    this.#node = options.node;
    // Upstream watches the requests of all nodes. The label makes it our own
    // on every version of Kubernetes; selectable fields need 1.31.
    this.#informer = new Informer(options.client, BLOCK_REQUESTS, {
      labelSelector: `${NODE_LABEL}=${options.node.name}`,
      backoff: informerBackoff(),
    });
    this.#cleaner = new Controller({
      name: "answered-requests",
      reconcile: (name, signal) => this.#clean(name, signal),
    });
    this.#informer.subscribe(({ type, object, key }) => {
      if (type === "deleted") this.#spent.delete(uidOf(object));
      else if (isAnswered(object) && !this.#awaited.has(key)) {
        this.#cleaner.enqueue(key, { afterMs: LATE_ANSWER_MS });
      }
    });
    this.synced = this.#prime();
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Record<string, (signal: AbortSignal) => Promise<void>> {
    return {
      "request informer": (signal) => this.#informer.run(signal),
      "request cleaner": (signal) => this.#cleaner.run(signal),
    };
  }

  /**
   * Takes answers from before the start as used: the live list of blocks at
   * the start, which comes after this, finds their blocks anyway.
   */
  async #prime(): Promise<void> {
    await this.#informer.synced;
    for (const request of this.#informer.store.list()) {
      if (isAnswered(request)) this.#use(request);
    }
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
    // Listening starts before the request exists: no answer can be missed.
    const wakeup = new Wakeup();
    using _subscription = this.#informer.subscribe(({ key }) => {
      if (names.includes(key)) wakeup.wake();
    });
    try {
      for (;;) {
        const request = await this.#ensure(names, pool, signal);
        const answered = await this.#waitAnswered(request, wakeup, signal);
        if (answered === undefined) continue; // deleted in between
        this.#use(answered);
        const result = blockRequestResult(answered);
        if (result.state === "complete") return result.block;
        if (result.state === "failed") throw refusal(pool, result);
      }
    } finally {
      for (const name of names) {
        this.#awaited.delete(name);
        this.#cleanUnused(name);
      }
    }
  }

  /** An answer may have come that a wait which failed in the meantime did not take. */
  #cleanUnused(name: string): void {
    const known = this.#informer.store.get(name);
    if (known === undefined || !isAnswered(known)) return;
    if (this.#spent.has(uidOf(known))) return;
    this.#cleaner.enqueue(name, { afterMs: LATE_ANSWER_MS });
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

  /** A request that is under way is to be found under whatever name it was made. */
  #earlier(
    names: readonly string[],
    pool: string,
    node: NodeFacts,
  ): readonly string[] {
    const isOwn = (name: string) => {
      const known = this.#informer.store.get(name);
      return known !== undefined && this.#isUsable(known, pool, node);
    };
    const own = names.filter(isOwn);
    return [...own, ...names.filter((name) => !own.includes(name))];
  }

  /** The same under one name; undefined when that belongs to somebody else. */
  async #ensureNamed(
    name: string,
    { pool, node, signal }: {
      readonly pool: string;
      readonly node: NodeFacts;
      readonly signal: AbortSignal;
    },
  ): Promise<BlockRequest | undefined> {
    for (;;) {
      signal.throwIfAborted();
      try {
        const request = labelled(name, pool, node);
        return await this.#client.create(BLOCK_REQUESTS, request, { signal });
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
        return found;
      }
      await this.#delete(found, signal);
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

  /** Waits until a request has its answer; undefined when it was deleted. */
  async #waitAnswered(
    request: BlockRequest,
    wakeup: Wakeup,
    signal: AbortSignal,
  ): Promise<BlockRequest | undefined> {
    const name = request.metadata.name ?? "";
    const isSame = (other: BlockRequest | undefined) =>
      other !== undefined && uidOf(other) === uidOf(request);
    let current = request;
    let recheckAt = performance.now() + RECHECK_MS;
    while (!isAnswered(current)) {
      const timeoutMs = Math.max(0, recheckAt - performance.now());
      await wakeup.wait({ signal, timeoutMs });
      const cached = this.#informer.store.get(name);
      if (cached !== undefined && isSame(cached)) current = cached;
      if (isAnswered(current) || performance.now() < recheckAt) continue;
      const live = await this.#client.tryGet(BLOCK_REQUESTS, { name, signal });
      if (live === undefined || !isSame(live)) return undefined;
      current = live;
      recheckAt = performance.now() + RECHECK_MS;
    }
    return current;
  }

  #use(request: BlockRequest): void {
    this.#spent.add(uidOf(request));
    this.#cleaner.enqueue(request.metadata.name ?? "");
  }

  /** Deletes an answered request that nobody waits for. */
  async #clean(name: string, signal: AbortSignal): Promise<void> {
    if (this.#awaited.has(name)) {
      // The waiting ADD decides; wait for what it makes of it.
      await sleep(RECHECK_MS, { signal });
      if (this.#awaited.has(name)) return this.#cleaner.enqueue(name);
    }
    const request = await this.#client.tryGet(BLOCK_REQUESTS, { name, signal });
    if (request === undefined || !isAnswered(request)) return;
    await this.#delete(request, signal);
  }

  async #delete(request: BlockRequest, signal: AbortSignal): Promise<void> {
    const uid = uidOf(request);
    try {
      await this.#client.delete(BLOCK_REQUESTS, {
        name: request.metadata.name ?? "",
        preconditions: { uid },
        signal,
      });
    } catch (error) {
      // Gone, or another object of that name: either way not this one.
      if (!(error instanceof KubeApiError)) throw error;
      if (!error.isNotFound && !error.isConflict) throw error;
    }
    this.#spent.delete(uid);
  }
}

function uidOf(request: BlockRequest): string {
  return request.metadata.uid ?? "";
}

function isAnswered(request: BlockRequest): boolean {
  return blockRequestResult(request).state !== "pending";
}

function refusal(
  pool: string,
  { reason, message }: { readonly reason: string; readonly message: string },
): Error {
  if (reason === REASON_POOL_NOT_FOUND) return new PoolNotFoundError(pool);
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
