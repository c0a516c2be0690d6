/** Options of every call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Time for the whole call with its retries. Default 30 s. */
  readonly timeoutMs?: number | undefined;
}

/** Which object to read. */
export interface GetOptions extends CallOptions {
  readonly name: string;
  readonly namespace?: string | undefined;
  /** "0" takes what the server's cache has. */
  readonly resourceVersion?: string | undefined;
  /** Only `metadata` is sent; the object is a PartialObjectMetadata. */
  readonly metadataOnly?: boolean | undefined;
}

/** Which objects of a collection. */
export interface Selection {
  /** All namespaces without it. */
  readonly namespace?: string | undefined;
  /** E.g. `app=web,tier in (a,b),!old`. */
  readonly labelSelector?: string | undefined;
  /** E.g. `spec.nodeName=node1`. */
  readonly fieldSelector?: string | undefined;
  /** Only `metadata` is sent; the objects are PartialObjectMetadata. */
  readonly metadataOnly?: boolean | undefined;
}

/** Which objects, and which page of them. */
export interface ListOptions extends Selection, CallOptions {
  /** The most objects of one page. */
  readonly limit?: number | undefined;
  /** Where the page before ended. */
  readonly continue?: string | undefined;
  /** "0" takes what the server's cache has, which may be a little old; the newest state without it. */
  readonly resourceVersion?: string | undefined;
}

/** How a list is asked for and read, instead of as whole objects in JSON. */
export interface ListFormat<T> {
  /** Header `accept`. */
  readonly accept: string;
  /** Reads the answer and hands over item by item. @throws {SyntaxError} when it is not a list */
  readonly parse: (
    body: Uint8Array,
    onItem: (item: T) => void,
  ) => ListEnvelope;
}

/** Which objects are watched, from which version on. */
export interface WatchOptions extends Selection, CallOptions {
  /** What happened after it is wanted; without it the watch begins with all objects as ADDED. */
  readonly resourceVersion?: string | undefined;
  /**
   * Begins with all objects, as ADDED, of a version at least as new as `resourceVersion`, then a bookmark for which
   * {@linkcode endsInitialEvents} is true (WatchList; servers without it refuse with status 422).
   */
  readonly sendInitialEvents?: boolean | undefined;
  /** When the server ends the watch. Default: random, 300 to 600 s. */
  readonly timeoutSeconds?: number | undefined;
  /** The connection is taken for dead when nothing came over it for so long, not even a bookmark. Default 130 s. */
  readonly idleTimeoutMs?: number | undefined;
  /** Called when the server has accepted the watch. */
  readonly onOpen?: (() => void) | undefined;
}

/** Options of create, update and patch. */
export interface WriteOptions extends CallOptions {
  /** Default: the object's own. */
  readonly namespace?: string | undefined;
  readonly fieldManager?: string | undefined;
}

/** Options of a creation. */
export interface CreateOptions extends WriteOptions {
  /** Of whose subresource: the object that has it. */
  readonly name?: string | undefined;
  /** Creates there, such as `token` of a ServiceAccount; the object says its apiVersion and kind itself. */
  readonly subresource?: string | undefined;
}

export interface PatchOptions extends WriteOptions {
  readonly kind: "merge" | "json" | "apply";
  readonly subresource?: string | undefined;
  /** Takes fields over from other managers (apply only). */
  readonly force?: boolean | undefined;
}

/** Which object to patch. */
export interface PatchTarget {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One step of a JSON patch (RFC 6902). */
export type JsonPatchOperation =
  | {
    readonly op: "add" | "replace" | "test";
    readonly path: string;
    readonly value: unknown;
  }
  | { readonly op: "remove"; readonly path: string };

/** Which object to delete, and on which conditions. */
export interface DeleteOptions extends CallOptions {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly preconditions?: {
    readonly uid?: string | undefined;
    readonly resourceVersion?: string | undefined;
  } | undefined;
  readonly propagationPolicy?:
    | "Orphan"
    | "Background"
    | "Foreground"
    | undefined;
  readonly gracePeriodSeconds?: number | undefined;
}

/** A list without its items. */
export interface ListEnvelope {
  /** Version of the collection; where a watch can go on. */
  readonly resourceVersion: string;
  /** Present when there is another page. */
  readonly continue?: string | undefined;
}

/** A collection, or a page of it. */
export interface KubeList<T> extends ListEnvelope {
  readonly items: T[];
}

/** Makes a query of the values that are there. */
export function queryOf(
  values: Readonly<Record<string, string | number | undefined>>,
): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  return query;
}
