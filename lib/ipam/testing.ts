/**
 * A cluster in memory, for tests of this unit and of the roles that use it.
 *
 * @module
 */
import { FakeClock, settle } from "../async/testing.ts";
import {
  type AddressRange,
  type DualStack,
  mapDualStack,
  Prefix,
  valuesOf,
} from "../inet/mod.ts";
import type { Allocation, AllocationRequest } from "./node/allocations.ts";
import { OutOfBlocksError, PoolNotFoundError } from "./base/errors.ts";
import type { NodeIpamOptions } from "./blocks/context.ts";
import { NodeIpam } from "./node/ipam.ts";
import type {
  BlockInfo,
  BlockSource,
  KernelPod,
  PoolState,
  RequestOptions,
  RestingAddress,
  RouteSink,
  SignalOptions,
} from "./base/ports.ts";

/** A pool of {@linkcode FakeCluster}. */
export interface FakePool {
  readonly blockSizeBits: number;
  readonly subnets: readonly DualStack<Prefix>[];
  state: PoolState;
  reserved: readonly AddressRange[];
}

/** A block as stored in {@linkcode FakeCluster}. */
export interface StoredBlock {
  node: string;
  info: BlockInfo;
}

/** API server and controller in one: pools, and the blocks that nodes have of them. */
export class FakeCluster {
  readonly pools: Map<string, FakePool> = new Map();
  /** Blocks by name. */
  readonly blocks: Map<string, StoredBlock> = new Map();
  #uid = 0;

  /** Makes a pool. Subnets are written as "10.2.0.0/29", "fd02::/125" or "10.2.0.0/29 fd02::/125". */
  addPool(name: string, blockSizeBits: number, ...subnets: string[]): FakePool {
    const pool: FakePool = {
      blockSizeBits,
      subnets: subnets.map(dual),
      state: "ready",
      reserved: [],
    };
    this.pools.set(name, pool);
    return pool;
  }

  /** Allocates the block with the lowest free index for a node. */
  allocate(poolName: string, node: string): BlockInfo {
    const pool = this.pools.get(poolName);
    if (pool === undefined) throw new PoolNotFoundError(poolName);
    if (pool.state === "deleting" || pool.state === "paused") {
      throw new OutOfBlocksError(poolName);
    }
    for (let index = 0;; index++) {
      const name = `${poolName}-${index}`;
      const prefixes = blockAt(pool, index);
      if (prefixes === undefined) throw new OutOfBlocksError(poolName);
      const isWhole = valuesOf(prefixes).some((prefix) =>
        pool.reserved.some((range) =>
          range.contains(prefix.address) &&
          range.contains(prefix.nth(prefix.size - 1n))
        )
      );
      if (!this.blocks.has(name) && !isWhole) {
        return this.add({ pool: poolName, index, prefixes, node });
      }
    }
  }

  /** Stores a block, as an admin would by hand. */
  add(block: {
    readonly pool: string;
    readonly index: number;
    readonly node: string;
    readonly prefixes?: DualStack<Prefix>;
    readonly name?: string;
    readonly reserved?: boolean;
    readonly deleting?: boolean;
  }): BlockInfo {
    const { pool, index, node, reserved = false, deleting = false } = block;
    const name = block.name ?? `${pool}-${index}`;
    const found = this.pools.get(pool);
    const prefixes = block.prefixes ?? (found && blockAt(found, index)) ?? {};
    const uid = `uid-${++this.#uid}`;
    const info = { name, pool, uid, index, prefixes, reserved, deleting };
    this.blocks.set(name, { node, info });
    return info;
  }

  /** Changes a stored block. */
  edit(name: string, change: Partial<BlockInfo>): void {
    const block = this.blocks.get(name);
    if (block !== undefined) block.info = { ...block.info, ...change };
  }

  of(node: string): BlockInfo[] {
    return [...this.blocks.values()]
      .filter((block) => block.node === node).map(({ info }) => info);
  }

  /** Removes a block if it is still the same object. */
  remove(block: BlockInfo): void {
    if (this.blocks.get(block.name)?.info.uid === block.uid) {
      this.blocks.delete(block.name);
    }
  }
}

/** One call of a {@linkcode FakeBlockSource} that has not been answered. */
export interface PendingCall {
  readonly kind: "list" | "request" | "release";
  /** The pool of a request, the names of a release's blocks. */
  readonly subject: string;
  /** Lets the cluster carry it out. Idempotent. */
  perform(): void;
  /** Carries it out if that has not been done, and delivers the outcome. */
  answer(): void;
  /** Delivers an error, whether or not it was carried out. */
  fail(error: Error): void;
}

/** The blocks of one node, answered at once or, with `auto` off, when the test says so. */
export class FakeBlockSource implements BlockSource {
  /** Whether calls are answered at once. */
  auto = true;
  /** Whether a call that is aborted goes on all the same, and can be answered later. */
  deaf = false;
  /** How many blocks an answer has at most. */
  mostBlocks = 1;
  /** Which blocks go back by one call. */
  releaseGroup = ({ uid }: BlockInfo): string => uid;
  /** How many addresses the requests so far were for. */
  readonly wanted: number[] = [];
  /** Thrown by the next calls of a kind, first come first served. */
  readonly failures: { kind: PendingCall["kind"]; error: Error }[] = [];
  /** Number of calls so far. */
  readonly counts: Record<PendingCall["kind"], number> = {
    list: 0,
    request: 0,
    release: 0,
  };
  readonly pending: Set<PendingCall> = new Set();
  readonly #cluster: FakeCluster;
  readonly #node: string;

  constructor(cluster: FakeCluster, node: string) {
    this.#cluster = cluster;
    this.#node = node;
  }

  list({ signal }: SignalOptions): Promise<BlockInfo[]> {
    return this.#call("list", "", signal, () => this.#cluster.of(this.#node));
  }

  request(
    pool: string,
    { signal, wanted }: RequestOptions,
  ): Promise<BlockInfo[]> {
    this.wanted.push(wanted);
    return this.#call("request", pool, signal, () => {
      if (this.mostBlocks === 0) return [];
      const blocks = [this.#cluster.allocate(pool, this.#node)];
      try {
        while (blocks.length < Math.min(wanted, this.mostBlocks)) {
          blocks.push(this.#cluster.allocate(pool, this.#node));
        }
      } catch (error) {
        if (!(error instanceof OutOfBlocksError)) throw error;
      }
      return blocks;
    });
  }

  release(
    blocks: readonly BlockInfo[],
    { signal }: SignalOptions,
  ): Promise<void> {
    const names = blocks.map(({ name }) => name).join(" ");
    return this.#call("release", names, signal, () => {
      for (const block of blocks) this.#cluster.remove(block);
    });
  }

  poolState(pool: string): PoolState {
    return this.#cluster.pools.get(pool)?.state ?? "absent";
  }

  reserved(pool: string): readonly AddressRange[] {
    return this.#cluster.pools.get(pool)?.reserved ?? [];
  }

  #call<T>(
    kind: PendingCall["kind"],
    subject: string,
    signal: AbortSignal,
    work: () => T,
  ): Promise<T> {
    this.counts[kind]++;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let outcome: (() => void) | undefined;
    const onAbort = () => {
      if (!this.deaf) call.fail(new DOMException("aborted", "AbortError"));
    };
    const end = (deliver: () => void) => {
      this.pending.delete(call);
      signal.removeEventListener("abort", onAbort);
      deliver();
    };
    const perform = () => {
      if (outcome !== undefined) return;
      try {
        const value = work();
        outcome = () => resolve(value);
      } catch (error) {
        outcome = () => reject(error);
      }
    };
    const call: PendingCall = {
      kind,
      subject,
      perform,
      answer: () => {
        perform();
        end(() => outcome?.());
      },
      fail: (error) => end(() => reject(error)),
    };
    this.pending.add(call);
    signal.addEventListener("abort", onAbort, { once: true });
    const at = this.failures.findIndex((failure) => failure.kind === kind);
    const [failure] = at < 0 ? [] : this.failures.splice(at, 1);
    if (signal.aborted) onAbort();
    else if (failure !== undefined) call.fail(failure.error);
    else if (this.auto) call.answer();
    return promise;
  }
}

/** Remembers what the export table would hold. */
export class FakeRoutes implements RouteSink {
  /** The prefixes of the last call, as text, in order. */
  prefixes: string[] = [];
  /** How many calls there were. */
  calls = 0;
  /** Errors for the next calls. */
  readonly failures: Error[] = [];
  /** When set, calls wait for it. */
  gate: Promise<void> | undefined;

  async sync(prefixes: readonly Prefix[]): Promise<void> {
    this.calls++;
    await this.gate;
    const error = this.failures.shift();
    if (error !== undefined) throw error;
    this.prefixes = prefixes.map(String);
  }
}

/** Parses "10.2.0.0/29", "fd02::/125" or both with a blank between. */
export function dual(text: string): DualStack<Prefix> {
  const prefixes = text.split(" ").map((part) => Prefix.parse(part));
  return Object.fromEntries(prefixes.map((prefix) => [prefix.family, prefix]));
}

function blockAt(
  pool: FakePool,
  index: number,
): DualStack<Prefix> | undefined {
  let rest = BigInt(index);
  for (const subnet of pool.subnets) {
    const [first] = Object.values(subnet);
    const blocks = 1n << BigInt((first?.hostBits ?? 0) - pool.blockSizeBits);
    if (rest < blocks) {
      return mapDualStack(
        subnet,
        (prefix) =>
          prefix.subnet(prefix.address.bits - pool.blockSizeBits, rest),
      );
    }
    rest -= blocks;
  }
  return undefined;
}

export interface FakeNode extends AsyncDisposable {
  readonly clock: FakeClock;
  readonly source: FakeBlockSource;
  readonly routes: FakeRoutes;
  readonly ipam: NodeIpam;
}

/** Starts a node of the cluster. Empty blocks are returned at once unless configured otherwise. */
export async function openNode(
  cluster: FakeCluster,
  options: Partial<NodeIpamOptions> & {
    readonly node?: string;
    readonly pods?: readonly KernelPod[];
    readonly resting?: readonly RestingAddress[];
  } = {},
): Promise<FakeNode> {
  const clock = new FakeClock();
  const source = new FakeBlockSource(cluster, options.node ?? "node1");
  const routes = new FakeRoutes();
  const ipam = new NodeIpam({
    source,
    routes,
    clock,
    returnDelayMs: 0,
    ...options,
  });
  const { signal } = new AbortController();
  await ipam.start(options.pods ?? [], {
    signal,
    resting: options.resting ?? [],
  });
  await settle();
  return {
    clock,
    source,
    routes,
    ipam,
    [Symbol.asyncDispose]: () => ipam[Symbol.asyncDispose](),
  };
}

/** The request of a container. */
export function keyOf(n: number | string, pool = "default"): AllocationRequest {
  return { pool, containerId: `c${n}`, ifname: "eth0" };
}

/** The addresses in text, IPv4 first, with a blank between. */
export function textOf({ addresses }: Pick<Allocation, "addresses">): string {
  return valuesOf(addresses).join(" ");
}

/** A whole DEL of a container, as far as addresses go. */
export async function release(
  ipam: NodeIpam,
  n: number | string,
): Promise<void> {
  const releasing = ipam.beginRelease(keyOf(n));
  if (releasing !== undefined) await ipam.finishRelease(releasing);
  await settle();
}
