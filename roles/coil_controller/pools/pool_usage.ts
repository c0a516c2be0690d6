import {
  type AddressPool,
  blockIndexOf,
  isReserved,
  layoutText,
  type Pool,
  type ReservedAddress,
  tryPoolOf,
  type UsedAddresses,
} from "../../../lib/api/mod.ts";
import {
  Address,
  AddressRange,
  type Family,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import type { Informer } from "../../../lib/kube/mod.ts";
import { addressText, type CachedPod } from "../base/cached_pod.ts";

/** Pods' addresses by the index of their block. */
type Counts = Record<Family, Map<number, number>>;

interface Counted {
  readonly pool: Pool;
  /** Its subnets, in which an address is found without making numbers of 128 bits. */
  readonly ranges: readonly AddressRange[];
  readonly counts: Counts;
  /** The pod that has a reserved address, by the address. */
  readonly reserved: Map<string, ReservedAddress>;
}

/** A change of one pod's address. */
interface Step {
  readonly pod: string;
  readonly address: Address;
  readonly by: 1 | -1;
}

/**
 * Counts which addresses of each pool's blocks pods have, as pods come and go.
 *
 * Whether there is such a block is asked when a pool's sum is made. So an
 * address counts in the pool whose block it is of, where pools overlap, and an
 * address that another network plugin gave, in none.
 */
export class PoolUsage implements Disposable {
  readonly #pods: Pick<Informer<CachedPod>, "hasSynced">;
  readonly #listeners = new Set<(pool: string) => void>();
  readonly #pools = new Map<string, Counted>();
  /** What has been counted of each pod; the informer's store may be ahead. */
  readonly #counted = new Map<string, string>();
  readonly #subscriptions = new DisposableStack();

  /** Follows the pods of the cluster that have addresses of their own and have not ended, and the pools. */
  constructor(
    { pods, pools }: {
      readonly pods: Pick<Informer<CachedPod>, "subscribe" | "hasSynced">;
      readonly pools: Pick<Informer<AddressPool>, "subscribe">;
    },
  ) {
    this.#pods = pods;
    const all = { replay: true };
    this.#subscriptions.use(pods.subscribe(({ type, key, object }) => {
      this.#note(key, type === "deleted" ? "" : addressText(object));
    }, all));
    this.#subscriptions.use(pools.subscribe(({ type, key, object }) => {
      const pool = type === "deleted" ? undefined : tryPoolOf(object);
      if (pool === undefined) this.#pools.delete(key);
      else this.#set(pool);
    }, all));
  }

  #set(pool: Pool): void {
    const known = this.#pools.get(pool.name)?.pool;
    if (known !== undefined && textOf(known) === textOf(pool)) return;
    const counts = { ipv4: new Map(), ipv6: new Map() };
    const ranges = pool.subnets.flatMap((subnet) =>
      valuesOf(subnet).map((prefix) => AddressRange.ofPrefix(prefix))
    );
    const counted = { pool, ranges, counts, reserved: new Map() };
    this.#pools.set(pool.name, counted);
    for (const [pod, text] of this.#counted) {
      for (const address of addressesIn(text)) {
        countIn(counted, { pod, address, by: 1 });
      }
    }
  }

  /** The addresses that pods have of a pool's blocks; undefined until all pods are known. */
  of(pool: string): UsedAddresses | undefined {
    if (!this.#pods.hasSynced) return undefined;
    const counted = this.#pools.get(pool);
    if (counted === undefined) return undefined;
    const { counts, reserved } = counted;
    return { ...counts, reserved: [...reserved.values()] };
  }

  /** Calls back with the name of a pool of which pods have more addresses, or fewer. */
  subscribe(listener: (pool: string) => void): Disposable {
    const entry = (pool: string) => listener(pool);
    this.#listeners.add(entry);
    return { [Symbol.dispose]: () => void this.#listeners.delete(entry) };
  }

  #note(key: string, text: string): void {
    const before = this.#counted.get(key) ?? "";
    if (text === before) return;
    if (text === "") this.#counted.delete(key);
    else this.#counted.set(key, text);
    this.#count(key, before, -1);
    this.#count(key, text, 1);
  }

  #count(pod: string, text: string, by: Step["by"]): void {
    if (text === "") return;
    const changed = new Set<string>();
    for (const address of addressesIn(text)) {
      for (const [name, counted] of this.#pools) {
        if (countIn(counted, { pod, address, by })) changed.add(name);
      }
    }
    for (const listener of this.#listeners) changed.forEach(listener);
  }

  /** Counts no more. */
  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
  }
}

/** Counts an address of a pool. False: it is none. */
function countIn(
  { pool, ranges, counts, reserved }: Counted,
  { pod, address, by }: Step,
): boolean {
  if (!ranges.some((range) => range.contains(address))) return false;
  const index = blockIndexOf(pool, address);
  if (index === undefined) return false;
  const ofFamily = counts[address.family];
  const count = (ofFamily.get(index) ?? 0) + by;
  if (count === 0) ofFamily.delete(index);
  else ofFamily.set(index, count);
  if (isReserved(pool, address)) {
    const text = address.toString();
    if (by > 0) reserved.set(text, { address: text, pod, index });
    else if (reserved.get(text)?.pod === pod) reserved.delete(text);
  }
  return true;
}

/** All that counts of a pool, to compare by. */
function textOf(pool: Pool): string {
  return [layoutText(pool), ...pool.reserved].join();
}

/** What is not an address is left out: a pod's status may say anything. */
function addressesIn(text: string): Address[] {
  return text.split(" ").flatMap((part) => Address.tryParse(part) ?? []);
}
