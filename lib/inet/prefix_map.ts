import type { Address } from "./address.ts";
import type { Family } from "./family.ts";
import type { Prefix } from "./prefix.ts";

/** Values by prefix. Finds those of an address by one look for each length of prefix. */
export class PrefixMap<T> {
  readonly #lengths = new Map<string, {
    readonly family: Family;
    readonly hostBits: bigint;
    readonly values: Map<bigint, T[]>;
  }>();

  /** Adds a value; a prefix may have several. */
  add(prefix: Prefix, value: T): void {
    const { family } = prefix;
    const key = `${family}/${prefix.length}`;
    const hostBits = BigInt(prefix.hostBits);
    const { values } = this.#lengths.getOrInsertComputed(
      key,
      () => ({ family, hostBits, values: new Map() }),
    );
    values.getOrInsertComputed(prefix.address.value >> hostBits, () => [])
      .push(value);
  }

  /** The values of all prefixes that have the address; for each prefix in the order in which they were added. */
  of(address: Address): T[] {
    const found: T[] = [];
    for (const { family, hostBits, values } of this.#lengths.values()) {
      if (family !== address.family) continue;
      found.push(...values.get(address.value >> hostBits) ?? []);
    }
    return found;
  }
}
