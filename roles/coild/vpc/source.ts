import { type Prefix, valuesOf } from "../../../lib/inet/mod.ts";
import {
  type BlockInfo,
  type BlockSource,
  OutOfBlocksError,
  type PoolState,
  type RequestOptions,
  type SignalOptions,
  type Stock,
} from "../../../lib/ipam/mod.ts";
import { VPC_POOL } from "../../../lib/names/mod.ts";
import { type EniBlock, grantEni } from "../../../lib/vpc/mod.ts";
import type { VpcFleet } from "./fleet.ts";
import type { Addresses } from "./uses.ts";

type Fleet = Pick<
  VpcFleet,
  | "blocks"
  | "isCordoned"
  | "isFull"
  | "isRetiring"
  | "planned"
  | "published"
  | "release"
  | "unmet"
  | "wake"
>;

/** EC2's side of the node's address management: its grants as blocks. */
export class VpcSource implements BlockSource {
  readonly #fleet: Fleet;
  readonly #addresses: Pick<Addresses, "blocks" | "routedWithin">;

  constructor(
    fleet: Fleet,
    addresses: Pick<Addresses, "blocks" | "routedWithin">,
  ) {
    this.#fleet = fleet;
    this.#addresses = addresses;
  }

  /** The plan decides what is kept in store. */
  get stock(): Stock {
    return {
      short: () => 0,
      isSpare: ({ info: { name } }) => this.#fleet.isRetiring(name),
    };
  }

  /** What pods can get or have: blocks that are not usable yet are left out, unless a pod has an address of them. */
  async list({ signal }: SignalOptions): Promise<BlockInfo[]> {
    await this.#fleet.published;
    signal.throwIfAborted();
    const { blocks } = this.#fleet;
    const known = this.#known();
    const others = blocks.filter(({ uid, usable }) =>
      !usable && !known.has(uid)
    );
    const routed = await this.#addresses.routedWithin(
      others.flatMap(prefixesOf),
    );
    const isInUse = (block: EniBlock) =>
      prefixesOf(block).some((prefix) =>
        routed.some((address) => prefix.contains(address))
      );
    return blocks
      .filter((block) => !others.includes(block) || isInUse(block))
      .map(infoOf);
  }

  /** The same without those that only the kernel knows, at once. */
  shown(): BlockInfo[] {
    const known = this.#known();
    return this.#fleet.blocks
      .filter(({ uid, usable }) => usable || known.has(uid))
      .map(infoOf);
  }

  /**
   * Waits for what the plan gets. How many addresses are wanted is not passed on: the plan counts the pods that wait when
   * it is made.
   *
   * @throws {OutOfBlocksError} when the instance can have no more
   */
  async request(
    pool: string,
    { signal }: RequestOptions,
  ): Promise<readonly BlockInfo[]> {
    for (let isPlanned = false;; isPlanned = true) {
      const known = this.#known();
      const fresh = this.#fleet.blocks
        .filter(({ uid, usable }) => usable && !known.has(uid));
      if (fresh.length > 0) return fresh.map(infoOf);
      if (isPlanned && this.#fleet.isFull) {
        throw new OutOfBlocksError(
          pool,
          this.#fleet.isCordoned
            ? "the node is cordoned, so it gets no ENI"
            : this.#fullReason,
        );
      }
      if (!isPlanned) this.#fleet.wake();
      await this.#fleet.planned({ signal });
    }
  }

  /** Gives blocks of one ENI back by one call. */
  async release(
    blocks: readonly BlockInfo[],
    options: SignalOptions,
  ): Promise<void> {
    await this.#fleet.release(blocks.map(({ name }) => name), options);
  }

  /** The ENI. */
  releaseGroup({ name }: BlockInfo): string {
    return grantEni(name);
  }

  poolState(pool: string): PoolState {
    return pool === VPC_POOL ? "ready" : "absent";
  }

  reserved(): [] {
    return [];
  }

  get #fullReason(): string {
    return this.#fleet.unmet?.why === "fixed"
      ? "EC2 is not asked for more"
      : "the instance type allows no more";
  }

  #known(): Set<string> {
    const records = this.#addresses.blocks() ?? [];
    return new Set(records.map(({ uid }) => uid));
  }
}

function prefixesOf({ prefixes }: EniBlock): Prefix[] {
  return valuesOf(prefixes);
}

/** Of what is not usable, address management gives nothing, and returns nothing. */
function infoOf({ name, uid, index, prefixes, usable }: EniBlock): BlockInfo {
  return {
    name,
    pool: VPC_POOL,
    uid,
    index,
    prefixes,
    reserved: !usable,
    deleting: false,
  };
}
