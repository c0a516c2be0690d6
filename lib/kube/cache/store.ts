import type { KubeObject } from "../api/objects.ts";

/** Change of an object in a store. */
export interface StoreChange<T> {
  readonly type: "added" | "updated" | "deleted";
  /** The new object; of a deletion the last known one. */
  readonly object: T;
  /** What it was before; only of an update. */
  readonly before?: T;
  /** `name` or `namespace/name`. */
  readonly key: string;
}

/** Names of indexes, each with a function that gives an object's values in it. */
export type Indexes<T> = Readonly<Record<string, (object: T) => string[]>>;

/** Objects by key and by index. Filled by an {@link Informer}; readers must not change the objects. */
export class Store<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  readonly #indexes = new Map<string, Index<T>>();

  constructor(indexes: Indexes<T> = {}) {
    for (const [name, valuesOf] of Object.entries(indexes)) {
      this.#indexes.set(name, new Index(valuesOf));
    }
  }

  /** How many objects there are. */
  get size(): number {
    return this.#objects.size;
  }

  /** The object of this key: `name`, or `namespace/name`. */
  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** All objects, in no order that means anything. */
  list(): T[] {
    return [...this.#objects.values()];
  }

  /** All keys. */
  keys(): string[] {
    return [...this.#objects.keys()];
  }

  /** The objects that have this value in the index. @throws {RangeError} when there is no such index. */
  byIndex(index: string, value: string): T[] {
    const found = this.#indexes.get(index);
    if (found === undefined) {
      throw new RangeError(`Cannot search index "${index}": there is none`);
    }
    const objects: T[] = [];
    for (const key of found.keys(value)) {
      const object = this.#objects.get(key);
      if (object !== undefined) objects.push(object);
    }
    return objects;
  }

  /** Puts an object in; undefined when it, or this very version, is in already. */
  set(key: string, object: T): StoreChange<T> | undefined {
    const old = this.#objects.get(key);
    if (old === object) return undefined;
    const version = object.metadata?.resourceVersion;
    if (
      old !== undefined && version !== undefined &&
      version === old.metadata?.resourceVersion &&
      object.metadata?.uid === old.metadata?.uid
    ) return undefined;
    this.#objects.set(key, object);
    for (const index of this.#indexes.values()) {
      if (old !== undefined) index.remove(key, old);
      index.add(key, object);
    }
    return old === undefined
      ? { type: "added", object, key }
      : { type: "updated", object, before: old, key };
  }

  /** Takes an object out; undefined when it is not in. */
  delete(key: string): StoreChange<T> | undefined {
    const object = this.#objects.get(key);
    if (object === undefined) return undefined;
    this.#objects.delete(key);
    for (const index of this.#indexes.values()) {
      index.remove(key, object);
    }
    return { type: "deleted", object, key };
  }
}

class Index<T> {
  readonly #valuesOf: (object: T) => string[];
  readonly #keys = new Map<string, Set<string>>();

  constructor(valuesOf: (object: T) => string[]) {
    this.#valuesOf = valuesOf;
  }

  keys(value: string): Iterable<string> {
    return this.#keys.get(value) ?? [];
  }

  add(key: string, object: T): void {
    for (const value of this.#valuesOf(object)) {
      this.#keys.getOrInsertComputed(value, () => new Set()).add(key);
    }
  }

  remove(key: string, object: T): void {
    for (const value of this.#valuesOf(object)) {
      const keys = this.#keys.get(value);
      keys?.delete(key);
      if (keys?.size === 0) this.#keys.delete(value);
    }
  }
}
