import type { Address, Family } from "../../../lib/inet/mod.ts";

/** Where an address of a pod is known from. */
export type ClaimSource = "status" | "announced";

/** An address that more than one live pod has. */
export interface SharedAddress {
  readonly address: Address;
  /** UIDs of the pods. */
  readonly uids: readonly string[];
}

interface Holder {
  readonly address: Address;
  readonly uids: Set<string>;
}

type Claims = Readonly<Partial<Record<ClaimSource, readonly Address[]>>>;

/**
 * The addresses that the gateway serves, each for as long as some pod has it,
 * by its status or by an announcement.
 *
 * Two live pods may have one address for a while: of a pod whose end the API
 * does not know yet, and of the next one that got its address.
 */
export class ClientSet {
  readonly #families: ReadonlySet<Family>;
  readonly #onShared: (shared: SharedAddress) => void;
  readonly #claims = new Map<string, Claims>();
  readonly #holders = new Map<string, Holder>();

  /** Addresses of other families are left out; `onShared` is called when another pod gets an address that one has. */
  constructor(options: {
    readonly families: Iterable<Family>;
    readonly onShared?: (shared: SharedAddress) => void;
  }) {
    this.#families = new Set(options.families);
    this.#onShared = options.onShared ?? (() => {});
  }

  /** How many addresses are served. */
  get size(): number {
    return this.#holders.size;
  }

  /** How many of them more than one pod has. */
  get sharedCount(): number {
    let count = 0;
    for (const { uids } of this.#holders.values()) if (uids.size > 1) count++;
    return count;
  }

  /** The addresses that are served, by their text. */
  addresses(): Map<string, Address> {
    const addresses = new Map<string, Address>();
    for (const [text, { address }] of this.#holders) {
      addresses.set(text, address);
    }
    return addresses;
  }

  /** Whether a pod has all these addresses by its status; those of families that are not served do not count. */
  hasStatus(uid: string, addresses: readonly Address[]): boolean {
    const { status = [] } = this.#claims.get(uid) ?? {};
    return this.#servedOf(addresses).every((wanted) =>
      status.some((address) => address.equals(wanted))
    );
  }

  /** Records which addresses a pod has according to a source, in place of what it said before. */
  claim(
    uid: string,
    { source, addresses }: {
      readonly source: ClaimSource;
      readonly addresses: readonly Address[];
    },
  ): void {
    const before = this.#claims.get(uid) ?? {};
    const served = this.#servedOf(addresses);
    this.#replace(uid, { before, after: { ...before, [source]: served } });
  }

  /** Forgets a pod. */
  forget(uid: string): void {
    const before = this.#claims.get(uid);
    if (before !== undefined) this.#replace(uid, { before, after: {} });
  }

  #servedOf(addresses: readonly Address[]): readonly Address[] {
    return addresses.filter(({ family }) => this.#families.has(family));
  }

  #replace(
    uid: string,
    { before, after }: { readonly before: Claims; readonly after: Claims },
  ): void {
    const wanted = textsOf(after);
    for (const text of textsOf(before).keys()) {
      if (!wanted.has(text)) this.#release(uid, text);
    }
    for (const [text, address] of wanted) this.#hold(uid, { text, address });
    if (wanted.size > 0) this.#claims.set(uid, after);
    else this.#claims.delete(uid);
  }

  #hold(
    uid: string,
    { text, address }: { readonly text: string; readonly address: Address },
  ): void {
    const holder = this.#holders.get(text) ?? { address, uids: new Set() };
    if (holder.uids.has(uid)) return;
    holder.uids.add(uid);
    this.#holders.set(text, holder);
    if (holder.uids.size > 1) {
      this.#onShared({ address, uids: [...holder.uids] });
    }
  }

  #release(uid: string, text: string): void {
    const holder = this.#holders.get(text);
    holder?.uids.delete(uid);
    if (holder?.uids.size === 0) this.#holders.delete(text);
  }
}

function textsOf(
  { status = [], announced = [] }: Claims,
): Map<string, Address> {
  const texts = new Map<string, Address>();
  for (const address of [...status, ...announced]) {
    texts.set(address.toString(), address);
  }
  return texts;
}
