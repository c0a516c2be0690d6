import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Block,
  tryBlockOf,
} from "../../lib/api/mod.ts";
import type { Address } from "../../lib/inet/mod.ts";
import { isPathSegment, type KubeClient } from "../../lib/kube/mod.ts";
import { Allowance } from "./allowance.ts";

/** coild waits a second; the answer is of no use to it after that. */
const GET_MS = 2_000;

/** A block that was given to another node counts as the first one's for so long at the most, as a revoked token does. */
const FRESH_MS = 60_000;

/** What is refused is looked up again, but not for each message. */
const LEAST_AGE_MS = 1_000;

/** More blocks than are in use at once; the least recently read go first. */
const MAX_KNOWN = 16_384;
/** More than a cluster has nodes. */
const MAX_NODES = 16_384;

/** Each block costs the API server a GET: so many for one node at once, then so many in a second. */
const BURST = 128;
const GETS_PER_MS = 10 / 1_000;

/** Which addresses are announced as which node's. */
export interface NodeClaim {
  readonly node: string;
  /** Name of the AddressBlock; undefined where coild does not give pods their addresses. */
  readonly block: string | undefined;
  readonly addresses: readonly Address[];
}

interface Known {
  /** Undefined: there is none, or it cannot be read. */
  readonly block: Block | undefined;
  readonly readMs: number;
}

/** One node announced addresses of too many blocks. */
export class TooManyBlocksError extends Error {
  override readonly name = "TooManyBlocksError";
}

/** Knows which node has an address, by the AddressBlock that the announcement names: one GET, remembered for a while. */
export class NodeBlocks {
  readonly #client: Pick<KubeClient, "tryGet">;
  readonly #nowMs: () => number;
  readonly #known = new Map<string, Known>();
  readonly #allowances = new Map<string, Allowance>();

  constructor(
    client: Pick<KubeClient, "tryGet">,
    options: { readonly nowMs?: () => number } = {},
  ) {
    this.#client = client;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /**
   * Returns why the addresses cannot be those of a pod of that node; undefined when they can.
   *
   * @throws {TooManyBlocksError} when the node asks for too many blocks
   * @throws {KubeApiError | KubeUnreachableError} when the API server cannot be asked
   */
  async problemOf(
    claim: NodeClaim,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    const { block } = claim;
    if (block === undefined || !isPathSegment(block)) {
      return "the announcement does not name the AddressBlock of the addresses, so they count when the pod's status has them";
    }
    const known = this.#known.get(block);
    const ageMs = this.#nowMs() - (known?.readMs ?? -Infinity);
    if (known !== undefined && ageMs < FRESH_MS) {
      const problem = mismatchOf(claim, known.block);
      // A block may have come to this node since.
      if (problem === undefined || ageMs < LEAST_AGE_MS) return problem;
    }
    return mismatchOf(claim, await this.#read(claim.node, { block, signal }));
  }

  async #read(
    node: string,
    { block: name, signal }: {
      readonly block: string;
      readonly signal: AbortSignal;
    },
  ): Promise<Block | undefined> {
    if (!this.#allowanceOf(node).take()) {
      throw new TooManyBlocksError(
        `Cannot look up AddressBlock "${name}": node "${node}" announced addresses of too many blocks`,
      );
    }
    const readMs = this.#nowMs();
    const object = await this.#client.tryGet<AddressBlock>(ADDRESS_BLOCKS, {
      name,
      signal,
      timeoutMs: GET_MS,
    });
    const block = object && tryBlockOf(object);
    remember(this.#known, name, { value: { block, readMs }, max: MAX_KNOWN });
    return block;
  }

  #allowanceOf(node: string): Allowance {
    const nowMs = this.#nowMs;
    const allowance = this.#allowances.get(node) ??
      new Allowance({ burst: BURST, perMs: GETS_PER_MS, nowMs });
    remember(this.#allowances, node, { value: allowance, max: MAX_NODES });
    return allowance;
  }
}

function mismatchOf(
  { node, block: name, addresses }: NodeClaim,
  block: Block | undefined,
): string | undefined {
  if (block === undefined) return `there is no AddressBlock "${name}"`;
  // Coil v1's pods use it, and nothing is given out of it.
  if (block.reserved) return `AddressBlock "${name}" is reserved`;
  if (block.node !== node) {
    return `AddressBlock "${name}" is not of node "${node}"`;
  }
  const stray = addresses.find((address) =>
    block.prefixes[address.family]?.contains(address) !== true
  );
  return stray === undefined
    ? undefined
    : `AddressBlock "${name}" does not have the address ${stray}`;
}

/** Sets an entry as the newest and drops the oldest above the limit. */
function remember<T>(
  map: Map<string, T>,
  key: string,
  { value, max }: { readonly value: T; readonly max: number },
): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= max) break;
    map.delete(oldest);
  }
}
