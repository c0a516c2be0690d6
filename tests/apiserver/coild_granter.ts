/** Answers BlockRequests as coil-controller does, under a test's control. */
import {
  type AddressBlock,
  type AddressPool,
  type BlockRequest,
  blockRequestResult,
  completedStatus,
  failedStatus,
  newAddressBlock,
  poolOf,
  REASON_OUT_OF_BLOCKS,
  REASON_POOL_NOT_FOUND,
} from "../../lib/api/mod.ts";
import { REQUEST_LABEL } from "../../lib/names/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import { sleep } from "../lab/mod.ts";
import { patchStatus } from "./patch_status.ts";

const API = "/apis/coil.cybozu.com/v2";

/** Grants the lowest free index. It does nothing until {@linkcode BlockGranter.start}. */
export class BlockGranter implements AsyncDisposable {
  readonly #plane: ControlPlane;
  #running:
    | { readonly stop: AbortController; readonly ended: Promise<void> }
    | undefined;
  /** Names of the blocks granted so far. */
  readonly granted: string[] = [];

  constructor(plane: ControlPlane) {
    this.#plane = plane;
  }

  start(): void {
    if (this.#running !== undefined) return;
    const stop = new AbortController();
    this.#running = { stop, ended: this.#run(stop.signal) };
  }

  /** Stops answering, as a controller that is away. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.stop.abort();
    await running?.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for (const request of await this.#list<BlockRequest>("blockrequests")) {
          if (blockRequestResult(request).state !== "pending") continue;
          await this.#answer(request);
        }
      } catch {
        // The API server is away, or the object changed: the next round sees.
      }
      await sleep(20);
    }
  }

  async #answer(request: BlockRequest): Promise<void> {
    const { poolName, nodeName } = request.spec;
    const uid = request.metadata.uid ?? "";
    const pools = await this.#list<AddressPool>("addresspools");
    const pool = pools.find((p) => p.metadata.name === poolName);
    const now = new Date();
    const fail = (reason: string) =>
      this.#status(request, failedStatus({ reason, message: reason }, now));
    if (pool === undefined) return await fail(REASON_POOL_NOT_FOUND);
    if (pool.metadata.deletionTimestamp) {
      return await fail(REASON_OUT_OF_BLOCKS);
    }
    const blocks = await this.#list<AddressBlock>("addressblocks");
    // An earlier answer may have been cut off after the block was made.
    const made = blocks.find((b) => b.metadata.labels?.[REQUEST_LABEL] === uid);
    if (made !== undefined) {
      const name = made.metadata.name ?? "";
      return await this.#status(request, completedStatus(name, now));
    }
    const used = new Set(
      blocks.filter((b) =>
        b.metadata.labels?.["coil.cybozu.com/pool"] === poolName
      )
        .map((b) => b.index),
    );
    let index = 0;
    while (used.has(index)) index++;
    const block = newAddressBlock(poolOf(pool), {
      index,
      node: nodeName,
      requestUid: uid,
    });
    if (block === undefined) return await fail(REASON_OUT_OF_BLOCKS);
    await this.#plane.request("POST", `${API}/addressblocks`, block);
    const name = block.metadata.name ?? "";
    this.granted.push(name);
    await this.#status(request, completedStatus(name, now));
  }

  async #status(request: BlockRequest, status: object): Promise<void> {
    const path = `${API}/blockrequests/${request.metadata.name}`;
    await patchStatus(this.#plane, path, status);
  }

  async #list<T>(plural: string): Promise<T[]> {
    const answer = await this.#plane.request("GET", `${API}/${plural}`) as {
      items: T[];
    };
    return answer.items;
  }
}
