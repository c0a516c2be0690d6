import { ADDRESS_BLOCKS, type AddressBlock } from "../../../lib/api/mod.ts";
import { Gate, jittered } from "../../../lib/async/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { NODE_LABEL, RESERVED_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("node-ipam");

/** A block that an answer named, and that was not taken in by then, is looked at. */
const EXPECTED_MS = 5_000;

/** A block taken over from v1 goes at any moment of a migration, and another node may get it at once. */
const RESERVED_MS = 2_000;

/** One look, a GET, takes no longer. */
const TIMEOUT_MS = 10_000;

export interface BlockLooksOptions {
  readonly client: Pick<KubeClient, "tryGet">;
  readonly nodeName: string;
  /** About how often each block is looked at. */
  readonly intervalMs: number;
}

interface Entry {
  /** As it was seen last; undefined when it never was. */
  readonly object: AddressBlock | undefined;
  readonly dueMs: number;
  /** When it was added: a list that began before knows nothing of it. */
  readonly sequence: number;
}

/**
 * Looks at the node's blocks one by one, each from time to time, for what
 * others did to them: an edit, a deletion. A watch by label would be compared
 * with every block that any node gets or returns; these are GETs
 * from the API server's cache, some ten an hour for each block. A block that
 * was never seen is read live: one of several API servers may not have it in
 * its cache yet, and only a list, an hour later, would find it again.
 */
export class BlockLooks {
  readonly #options: BlockLooksOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<(blocks: AddressBlock[]) => void>();
  #sequence = 0;
  #changed = new Gate();

  constructor(options: BlockLooksOptions) {
    this.#options = options;
  }

  /** Calls back with all blocks as they were seen last, when a look has shown that one has changed or is gone. */
  subscribe(listener: (blocks: AddressBlock[]) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** To be called when a list begins; the result takes in what it showed. */
  beginList(): (objects: readonly AddressBlock[]) => void {
    const mark = this.#sequence;
    return (objects) => {
      const names = new Set(objects.map(nameOf));
      for (const [name, { sequence }] of this.#entries) {
        if (sequence <= mark && !names.has(name)) this.#entries.delete(name);
      }
      for (const object of objects) this.#keep(nameOf(object), object);
      this.#changed.open();
    };
  }

  /** Takes in a block that was read live. */
  adopted(object: AddressBlock): void {
    this.#keep(nameOf(object), object);
    this.#changed.open();
  }

  /** An answer named a block: it is looked at soon, unless it is adopted before. */
  expect(name: string): void {
    const dueMs = performance.now() + EXPECTED_MS;
    this.#entries.set(name, {
      object: this.#entries.get(name)?.object,
      dueMs,
      sequence: ++this.#sequence,
    });
    this.#changed.open();
  }

  /** The node has given a block back. */
  released(name: string): void {
    this.#entries.delete(name);
  }

  /** Looks until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#changed = new Gate();
      const changed = this.#changed;
      const nowMs = performance.now();
      const due = [...this.#entries].filter(([, e]) => e.dueMs <= nowMs);
      for (const [name, entry] of due) await this.#look(name, entry, signal);
      if (due.length > 0) continue;
      const nextMs = Math.min(
        ...[...this.#entries.values()].map(({ dueMs }) => dueMs),
      );
      const waitMs = Math.min(nextMs - nowMs, this.#options.intervalMs);
      // Aborted or not: the loop looks.
      await changed.waitAtMost(waitMs, { signal }).catch(() => {});
    }
  }

  async #look(
    name: string,
    entry: Entry,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, nodeName } = this.#options;
    let found: AddressBlock | undefined;
    try {
      found = await client.tryGet(ADDRESS_BLOCKS, {
        name,
        resourceVersion: entry.object === undefined ? undefined : "0",
        timeoutMs: TIMEOUT_MS,
        signal,
      });
    } catch (err) {
      if (signal.aborted) return;
      log.debug("Cannot read a block", { block: name, err });
      if (this.#entries.get(name) === entry) this.#keep(name, entry.object);
      return;
    }
    // It was adopted, listed or released since.
    if (this.#entries.get(name) !== entry) return;
    const isOurs = found?.metadata.labels?.[NODE_LABEL] === nodeName;
    if (isOurs) this.#keep(name, found);
    else this.#entries.delete(name);
    const { object } = entry;
    const isSame = isOurs && versionOf(found) === versionOf(object);
    if (!isSame && (isOurs || object !== undefined)) this.#notify();
  }

  #notify(): void {
    const blocks = [...this.#entries.values()]
      .map(({ object }) => object)
      .filter((object) => object !== undefined);
    for (const listener of this.#listeners) listener(blocks);
  }

  /** Nodes that were started together do not look together. */
  #keep(name: string, object: AddressBlock | undefined): void {
    const { intervalMs } = this.#options;
    const everyMs = object?.metadata.labels?.[RESERVED_LABEL] === "true"
      ? Math.min(intervalMs, RESERVED_MS)
      : intervalMs;
    const dueMs = performance.now() + jittered(everyMs);
    this.#entries.set(name, { object, dueMs, sequence: ++this.#sequence });
  }
}

function nameOf({ metadata }: AddressBlock): string {
  return metadata.name ?? "";
}

function versionOf(object: AddressBlock | undefined): string {
  const { uid, resourceVersion } = object?.metadata ?? {};
  return `${uid} ${resourceVersion}`;
}
