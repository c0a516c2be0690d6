import type { KubeObject } from "../api/objects.ts";
import { type KubeStatus, watchError } from "../http/errors.ts";
import { splitLines } from "../http/json_lines.ts";

/** A change of a collection. A BOOKMARK's object has nothing but `metadata.resourceVersion`. */
export interface WatchEvent<T> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: T;
}

/** Set to "true" on the bookmark behind the objects that a watch begins with (Kubernetes API concepts, streaming lists). */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

type RawEvent<T> = WatchEvent<T> | {
  readonly type: "ERROR";
  readonly object: KubeStatus;
};

/** For how long to ask for a watch, 300 to 600 s: those of many do not end together. */
export function watchSeconds(): number {
  return 300 + Math.floor(Math.random() * 300);
}

/** Whether all objects that there were have been sent. */
export function endsInitialEvents(
  { type, object }: WatchEvent<KubeObject>,
): boolean {
  return type === "BOOKMARK" &&
    object.metadata?.annotations?.[INITIAL_EVENTS_END] === "true";
}

/** Reads the events of a watch's body. @throws {KubeApiError} for an event of type ERROR. */
export async function* readWatch<T>(
  what: string,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<WatchEvent<T>, void, undefined> {
  for await (const line of splitLines(chunks)) {
    const event = parseEvent<T>(line);
    if (event === undefined) return;
    if (event.type === "ERROR") throw watchError(what, event.object);
    yield event;
  }
}

/** Undefined for half an object: the connection ended in its middle. */
function parseEvent<T>(line: string): RawEvent<T> | undefined {
  try {
    return JSON.parse(line) as RawEvent<T>;
  } catch (err) {
    if (err instanceof SyntaxError) return undefined;
    throw err;
  }
}
