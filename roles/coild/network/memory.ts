import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";

interface Addition {
  readonly network: string;
  /** Counts ADDs up. */
  readonly number: number;
}

/**
 * Remembers by which network each attachment was added, and in which order.
 *
 * It lasts as long as the process: link aliases have no room for it in
 * upstream's form. Garbage collection treats what it does not know with care.
 */
export class NetworkMemory {
  readonly #additions = new Map<string, Addition>();
  #number = 0;

  /** The number of the last ADD. */
  get number(): number {
    return this.#number;
  }

  /** Notes an attachment that an ADD made, and its network. */
  remember(key: AttachmentKey, network: string): void {
    const number = ++this.#number;
    this.#additions.set(keyText(key), { network, number });
  }

  /** Whether an attachment was added after the ADD of that number. */
  isAddedAfter(key: AttachmentKey, number: number): boolean {
    return (this.#additions.get(keyText(key))?.number ?? 0) > number;
  }

  forget(key: AttachmentKey): void {
    this.#additions.delete(keyText(key));
  }

  /** The network of an attachment; undefined for those of an earlier process. */
  networkOf(key: AttachmentKey): string | undefined {
    return this.#additions.get(keyText(key))?.network;
  }
}
