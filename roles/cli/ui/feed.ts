import { Gate } from "../../../lib/async/mod.ts";

/** Contents of the page, each entry as JSON by its key. */
export type Entries = ReadonlyMap<string, string>;

/** A comment goes out when nothing has changed for so long: a connection that is lost shows itself. */
const HEARTBEAT_MS = 15_000;
const HEARTBEAT = ":\n\n";

/** Hands the page's entries to any number of readers, as server-sent events of what is new for each of them. */
export class Feed {
  #parts: ReadonlyMap<string, Entries> = new Map();
  #changed = new Gate();

  /** Puts a part of the entries in the place of that part's former ones. */
  publish(part: string, entries: Entries): void {
    this.#parts = new Map(this.#parts).set(part, entries);
    this.#changed.open();
    this.#changed = new Gate();
  }

  /** First everything (`state`), then changes; a reader that is slow gets several changes as one. */
  events(): ReadableStream<Uint8Array> {
    const stop = new AbortController();
    const encoder = new TextEncoder();
    let sent: ReadonlyMap<string, Entries> | undefined;
    const next = async (): Promise<string> => {
      for (;;) {
        const changed = this.#changed;
        const parts = this.#parts;
        const event = eventOf(sent, parts);
        sent = parts;
        if (event !== undefined) return event;
        await changed.waitAtMost(HEARTBEAT_MS, { signal: stop.signal });
        if (!changed.isOpen) return HEARTBEAT;
      }
    };
    return new ReadableStream({
      pull: async (controller) =>
        controller.enqueue(encoder.encode(await next())),
      cancel: () => stop.abort(),
    }, { highWaterMark: 0 });
  }
}

/** Undefined when nothing is new. */
function eventOf(
  before: ReadonlyMap<string, Entries> | undefined,
  after: ReadonlyMap<string, Entries>,
): string | undefined {
  const set: string[] = [];
  const gone: string[] = [];
  for (const [part, entries] of after) {
    const old = before?.get(part) ?? new Map<string, string>();
    if (old === entries) continue;
    for (const [key, json] of entries) {
      if (old.get(key) !== json) set.push(`${JSON.stringify(key)}:${json}`);
    }
    for (const key of old.keys()) {
      if (!entries.has(key)) gone.push(JSON.stringify(key));
    }
  }
  if (before !== undefined && set.length + gone.length === 0) return undefined;
  const name = before === undefined ? "state" : "changes";
  return `event: ${name}\ndata: {"set":{${set.join()}},"gone":[${gone.join()}]}\n\n`;
}
