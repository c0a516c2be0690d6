import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Block,
  tryBlockOf,
} from "../../../lib/api/mod.ts";
import { Allowances, BoundedMap } from "../../../lib/async/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { isPathSegment, type KubeClient } from "../../../lib/kube/mod.ts";

/** coild waits a second; after that the answer is too late. */
const GET_MS = 2_000;

/** The longest time that a block given to another node still counts as the first one's, as with a revoked token. */
const FRESH_MS = 60_000;

/** What is refused is looked up again, but not for each message. */
const LEAST_AGE_MS = 1_000;

/** More blocks than are in use at once; the least recently read go first. */
const MAX_KNOWN = 16_384;
/** More than a cluster has nodes. */
const MAX_NODES = 16_384;

/** Each block costs the API server a GET: so many for one node at once, then so many in a second. */
const GETS = { burst: 128, perSecond: 10 };

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
  readonly #known = new BoundedMap<string, Known>(MAX_KNOWN);
  readonly #allowances: Allowances;

  constructor(
    client: Pick<KubeClient, "tryGet">,
    options: { readonly nowMs?: () => number } = {},
  ) {
    this.#client = client;
    const { nowMs = () => performance.now() } = options;
    this.#nowMs = nowMs;
    this.#allowances = new Allowances(GETS, { max: MAX_NODES, nowMs });
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
      return "the announcement does not name the AddressBlock of the addresses; they are accepted when the pod's status has them";
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
    if (!this.#allowances.of(node).take()) {
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
    this.#known.set(name, { block, readMs });
    return block;
  }
}

function mismatchOf(
  { node, block: name, addresses }: NodeClaim,
  block: Block | undefined,
): string | undefined {
  if (block === undefined) return `AddressBlock "${name}" does not exist`;
  // Coil v1's pods use it, and nothing is given out of it.
  if (block.reserved) return `AddressBlock "${name}" is reserved`;
  if (block.node !== node) {
    return `AddressBlock "${name}" is not of node "${node}"`;
  }
  const outside = addresses.find((address) =>
    block.prefixes[address.family]?.contains(address) !== true
  );
  return outside === undefined
    ? undefined
    : `AddressBlock "${name}" does not have the address ${outside}`;
}
