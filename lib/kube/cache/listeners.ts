import { getLogger } from "../../telemetry/mod.ts";
import type { KubeObject } from "../api/objects.ts";
import type { Store, StoreChange } from "./store.ts";

const log = getLogger("informer");

type Listener<T> = (change: StoreChange<T>) => void;

/** Who is called for the changes of a store. One that throws is logged and called again next time. */
export class Listeners<T extends KubeObject> {
  readonly #resource: string;
  readonly #entries = new Set<Listener<T>>();

  /** @param resource names the objects in the log */
  constructor(resource: string) {
    this.#resource = resource;
  }

  /** Calls back for each change from now on; first for each object of a store. */
  add(listener: Listener<T>, replayed?: Store<T>): Disposable {
    // A wrapper of its own, so that one function may be subscribed twice.
    const entry: Listener<T> = (change) => listener(change);
    this.#entries.add(entry);
    if (replayed !== undefined) {
      for (const change of additionsOf(replayed)) this.#call(entry, change);
    }
    return { [Symbol.dispose]: () => void this.#entries.delete(entry) };
  }

  /** Emits each object of a store. */
  replay(store: Store<T>): void {
    for (const change of additionsOf(store)) this.emit(change);
  }

  emit(change: StoreChange<T>): void {
    for (const entry of [...this.#entries]) this.#call(entry, change);
  }

  #call(entry: Listener<T>, change: StoreChange<T>): void {
    try {
      entry(change);
    } catch (err) {
      log.error("Listener of an informer failed", {
        resource: this.#resource,
        key: change.key,
        err,
      });
    }
  }
}

function* additionsOf<T extends KubeObject>(
  store: Store<T>,
): Generator<StoreChange<T>> {
  for (const key of store.keys()) {
    const object = store.get(key);
    if (object !== undefined) yield { type: "added", object, key };
  }
}
