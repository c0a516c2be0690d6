import type { PodKey } from "../../lib/podnet/mod.ts";
import { keyText } from "./keys.ts";

/**
 * Remembers by which network each attachment was added, and which names of
 * networks have been seen at all.
 *
 * It lasts as long as the process: link aliases have no room for it in
 * upstream's form. Garbage collection treats what it does not know with care.
 */
export class NetworkMemory {
  readonly #networks = new Map<string, string>();

  /** Notes the network of an attachment. */
  remember(key: PodKey, network: string): void {
    this.#networks.set(keyText(key), network);
  }

  /** Forgets an attachment. */
  forget(key: PodKey): void {
    this.#networks.delete(keyText(key));
  }

  /** The network of an attachment; undefined for those of an earlier process. */
  networkOf(key: PodKey): string | undefined {
    return this.#networks.get(keyText(key));
  }
}
