import type { Backoff, Clock } from "../../async/mod.ts";
import type { Selection } from "../http/options.ts";
import type { Indexes, StoreChange } from "./store.ts";

export interface InformerOptions<T> extends Selection {
  /**
   * Makes the object that is kept of the one that came. Changes that are none are left out if it keeps `metadata.uid`
   * and `resourceVersion`, or if it returns the object that is in the store. Default: leaves out
   * `metadata.managedFields`.
   */
  readonly transform?: (object: T) => T;
  /**
   * Which objects are kept, where no selector of the server can decide. Asked with the object as it came; one that
   * is not to be kept is dropped as soon as it is read, and one that is kept no longer counts as deleted.
   */
  readonly keep?: (object: T) => boolean;
  /** For {@link Store.byIndex}. */
  readonly indexes?: Indexes<T>;
  /** The first subscriber. */
  readonly onChange?: (change: StoreChange<T>) => void;
  /** Delays between attempts. Default: up to 1 s, doubling up to 30 s, all of it random: thousands of nodes come back one by one. */
  readonly backoff?: Backoff;
  /** Passes during the delays. */
  readonly clock?: Clock;
  /** See {@link KubeClient.watch}. */
  readonly idleTimeoutMs?: number;
}
