import type { KubeObject } from "../api/objects.ts";
import { KubeApiError } from "../http/errors.ts";
import type { Store, StoreChange } from "./store.ts";

/** What a list, or the objects that a watch begins with, has done so far. */
export interface Reading<T> {
  /** Keys of objects in the store that are not known to be there still. */
  readonly unseen: Set<string>;
  /** What listeners do not have yet, beside what {@linkcode isFirst} says. */
  readonly changes: StoreChange<T>[];
  /** The store was empty, so listeners have none of its objects yet: no list of them is kept, of which there may be 150,000. */
  isFirst: boolean;
  isComplete: boolean;
}

/** One that begins, into a store. */
export function newReading<T extends KubeObject>(store: Store<T>): Reading<T> {
  const unseen = new Set(store.keys());
  const isFirst = unseen.size === 0;
  return { unseen, changes: [], isFirst, isComplete: false };
}

/**
 * Whether the server says that it has no such version: 504 with reason Timeout, after some seconds, where its cache is
 * behind; for ever where it was restored from a backup. Lists of the newest state, in pages, cost it much more.
 */
export function isBehind(err: unknown): boolean {
  return err instanceof KubeApiError && [400, 410, 504].includes(err.status);
}

/** Whether the server has no watches that begin with all objects: it takes the parameter for invalid. */
export function isRefusal(err: unknown): boolean {
  return err instanceof KubeApiError && err.status === 422;
}
