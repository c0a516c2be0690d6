/**
 * Doubles for unit tests: a transport that is a function, and a clock that is turned by hand.
 *
 * @module
 */
import { isJsonObject } from "../json/mod.ts";
import { abortable } from "../async/mod.ts";
import type { KubeObject } from "./mod.ts";
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./http/transport.ts";

export { type MemoryServer, serveTransport } from "./http/testing.ts";

/** Answer of a {@link FakeTransport}'s function. */
export interface FakeAnswer {
  /** Default 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text, or what becomes JSON. */
  readonly body?: unknown;
  /** A body that comes bit by bit; each value is sent as JSON and a line end, text as it is. */
  readonly lines?: AsyncIterable<unknown>;
}

/**
 * A {@link Transport} that calls a function for each request and remembers them. Watches that begin with all objects it
 * refuses unseen, as a server without WatchList does, unless `streamsLists` is set.
 */
export class FakeTransport implements Transport {
  readonly host = "fake:6443";
  /** All requests so far. */
  readonly requests: TransportRequest[] = [];
  /** How often credentials were to be read again. */
  refreshes = 0;
  readonly #answer: (
    request: TransportRequest,
  ) => FakeAnswer | Promise<FakeAnswer>;

  readonly #streamsLists: boolean;

  constructor(
    answer: (request: TransportRequest) => FakeAnswer | Promise<FakeAnswer>,
    { streamsLists = false }: { readonly streamsLists?: boolean } = {},
  ) {
    this.#answer = answer;
    this.#streamsLists = streamsLists;
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const stream = await this.stream(request);
    const { status, headers } = stream;
    const decoder = new TextDecoder();
    let body = "";
    for await (const chunk of stream.chunks) body += decoder.decode(chunk);
    return { status, headers, body };
  }

  async stream(request: TransportRequest): Promise<TransportStream> {
    request.signal?.throwIfAborted();
    const isRefused = !this.#streamsLists &&
      request.path.includes("sendInitialEvents=");
    if (!isRefused) this.requests.push(request);
    const answer: FakeAnswer = isRefused
      ? { status: 422 }
      : await this.#answer(request);
    const encoder = new TextEncoder();
    async function* chunks() {
      if (answer.lines === undefined) {
        yield encoder.encode(asText(answer.body ?? ""));
        return;
      }
      for await (const line of answer.lines) {
        request.signal?.throwIfAborted();
        const isText = typeof line === "string";
        yield encoder.encode(isText ? line : `${JSON.stringify(line)}\n`);
      }
    }
    const headers = new Headers(answer.headers);
    return { status: answer.status ?? 200, headers, chunks: chunks() };
  }

  refreshCredentials(): Promise<void> {
    this.refreshes++;
    return Promise.resolve();
  }

  close(): void {}
}

function asText(body: unknown): string {
  return typeof body === "string" ? body : JSON.stringify(body);
}

/** An object as {@link MemoryApi} stores it. */
export type MemoryObject = KubeObject & {
  readonly metadata: NonNullable<KubeObject["metadata"]> & {
    readonly name: string;
  };
};

interface MemoryEvent {
  readonly version: number;
  readonly collection: string;
  readonly before?: MemoryObject | undefined;
  readonly after?: MemoryObject | undefined;
}

/** Where a request goes. */
interface Target {
  readonly collection: string;
  readonly namespace: string;
  readonly name: string | undefined;
  readonly isStatus: boolean;
  readonly query: URLSearchParams;
}

/**
 * An API server in memory, without any schema, for unit tests of controllers: lists, watches, writes with preconditions.
 * An apply takes nothing away, and what an object owns outlives it.
 */
export class MemoryApi implements Transport {
  readonly host = "memory:6443";
  /** All writes so far, as "PATCH configmaps/ns/name". */
  readonly writes: string[] = [];
  /** Answers a write in place of the server: the status of a refusal. */
  refuse: (write: string) => number | undefined = () => undefined;
  readonly #objects = new Map<string, MemoryObject>();
  readonly #events: MemoryEvent[] = [];
  #changed = Promise.withResolvers<void>();

  /** Stores an object as another client would; one without a UID gets one. */
  put<T extends KubeObject>(plural: string, object: T): void {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const key = `${plural}/${namespace}/${name}`;
    const uid = this.#objects.get(key)?.metadata.uid ??
      object.metadata?.uid ?? `uid-of-${key}`;
    const metadata = { ...object.metadata, uid, name };
    this.#store(plural, key, { ...object, metadata });
  }

  /** What is stored under `PLURAL/NAMESPACE/NAME`. */
  get<T extends KubeObject>(key: string): T | undefined {
    return this.#objects.get(key) as T | undefined;
  }

  /** All keys of stored objects. */
  get keys(): string[] {
    return [...this.#objects.keys()].sort();
  }

  /** Removes what is stored under `PLURAL/NAMESPACE/NAME`. */
  remove(key: string): void {
    const before = this.#objects.get(key);
    if (before === undefined) return;
    this.#objects.delete(key);
    const [collection = ""] = key.split("/");
    this.#tell({ collection, before });
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    request.signal?.throwIfAborted();
    const target = targetOf(request.path);
    const { status, body } = request.method === "GET"
      ? this.#read(target)
      : this.#write(request, target);
    return { status, headers: new Headers(), body: JSON.stringify(body) };
  }

  async stream(request: TransportRequest): Promise<TransportStream> {
    const { query } = targetOf(request.path);
    const headers = new Headers();
    if (query.get("watch") === "true" && !query.has("sendInitialEvents")) {
      return { status: 200, headers, chunks: this.#watch(request) };
    }
    const isStreamedList = query.has("sendInitialEvents");
    const answer = isStreamedList
      ? { status: 422, body: "" }
      : await this.request(request);
    async function* chunks() {
      yield new TextEncoder().encode(answer.body);
    }
    return { status: answer.status, headers, chunks: chunks() };
  }

  refreshCredentials(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {}

  get #version(): number {
    return this.#events.length;
  }

  #tell(event: Omit<MemoryEvent, "version">): void {
    this.#events.push({ ...event, version: this.#version + 1 });
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #store(collection: string, key: string, object: MemoryObject): MemoryObject {
    const before = this.#objects.get(key);
    const resourceVersion = `${this.#version + 1}`;
    const metadata = { ...object.metadata, resourceVersion };
    const after = { ...object, metadata };
    this.#objects.set(key, after);
    this.#tell({ collection, before, after });
    return after;
  }

  #read({ collection, namespace, name, query }: Target) {
    if (name !== undefined) {
      const found = this.#objects.get(`${collection}/${namespace}/${name}`);
      return found === undefined ? refusal(404) : { status: 200, body: found };
    }
    const items = [...this.#objects].filter(([key, object]) =>
      key.startsWith(`${collection}/`) &&
      (namespace === "" || object.metadata.namespace === namespace) &&
      isSelected(query, object)
    ).map(([, object]) => object);
    const metadata = { resourceVersion: `${this.#version}` };
    return { status: 200, body: { kind: "List", metadata, items } };
  }

  #write(request: TransportRequest, target: Target) {
    const { method, headers } = request;
    const { collection, namespace, isStatus } = target;
    const body = JSON.parse(request.body ?? "{}");
    const name = target.name ?? body.metadata.name;
    const key = `${collection}/${namespace}/${name}`;
    const write = `${method} ${key}${isStatus ? "/status" : ""}`;
    const refused = this.refuse(write);
    if (refused !== undefined) return refusal(refused);
    this.writes.push(write);
    const found = this.#objects.get(key);
    const isApply = headers["content-type"]?.includes("apply-patch") === true;
    const isMaking = method === "POST" || (isApply && !isStatus);
    if (found === undefined && !isMaking) return refusal(404);
    if (found !== undefined && method === "POST") {
      return refusal(409, "AlreadyExists");
    }
    const conditions = method === "DELETE" ? body.preconditions : body.metadata;
    if (found !== undefined && !isMet(conditions, found)) return refusal(409);
    if (method === "DELETE") return this.#delete(key, found);
    const changed = Array.isArray(body)
      ? jsonPatched(found, body)
      : mergePatched(method === "PUT" ? {} : found, body);
    if (changed === undefined) return refusal(422);
    const object = isStatus
      ? { ...found, status: (changed as { status?: unknown }).status }
      : changed as MemoryObject;
    const uid = found?.metadata.uid ?? `uid-of-${key}-${this.#version}`;
    const place = namespace === "" ? { name } : { namespace, name };
    const metadata = { ...object.metadata, ...place, uid };
    const stored = this.#store(collection, key, { ...object, metadata });
    if (isOver(stored)) this.remove(key);
    return { status: found === undefined ? 201 : 200, body: stored };
  }

  #delete(key: string, found: MemoryObject | undefined) {
    const [collection = ""] = key.split("/");
    if ((found?.metadata.finalizers ?? []).length === 0) this.remove(key);
    else if (found !== undefined) {
      const deletionTimestamp = "2026-01-01T00:00:00Z";
      const metadata = { ...found.metadata, deletionTimestamp };
      this.#store(collection, key, { ...found, metadata });
    }
    return { status: 200, body: {} };
  }

  async *#watch(request: TransportRequest): AsyncGenerator<Uint8Array> {
    const { collection, query } = targetOf(request.path);
    let version = Number(query.get("resourceVersion") ?? this.#version);
    const isShown = (object: MemoryObject | undefined) =>
      object !== undefined && isSelected(query, object);
    for (;;) {
      const { promise } = this.#changed;
      for (const event of this.#events.slice(version)) {
        version = event.version;
        if (event.collection !== collection) continue;
        const [was, is] = [isShown(event.before), isShown(event.after)];
        if (!was && !is) continue;
        const type = !is ? "DELETED" : was ? "MODIFIED" : "ADDED";
        const { metadata } = event.after ?? event.before ?? {};
        const object = {
          ...event.after ?? event.before,
          metadata: { ...metadata, resourceVersion: `${version}` },
        };
        yield new TextEncoder().encode(`${JSON.stringify({ type, object })}\n`);
      }
      await abortable(promise, request.signal ?? new AbortController().signal);
    }
  }
}

/** `/api/v1/[namespaces/NAMESPACE/]PLURAL[/NAME[/status]]`, or below `/apis/GROUP/VERSION`. */
function targetOf(path: string): Target {
  const url = new URL(path, "http://memory");
  const parts = url.pathname.split("/").slice(1);
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const [namespace = ""] = rest[0] === "namespaces" && rest.length > 2
    ? rest.splice(0, 2).slice(1)
    : [];
  const [collection = "", name, subresource] = rest;
  const isStatus = subresource === "status";
  return { collection, namespace, name, isStatus, query: url.searchParams };
}

function refusal(
  status: number,
  reason: string = status === 409 ? "Conflict" : "",
) {
  return { status, body: { kind: "Status", code: status, reason } };
}

function isMet(
  conditions: Partial<MemoryObject["metadata"]> | undefined,
  { metadata }: MemoryObject,
): boolean {
  return (["uid", "resourceVersion"] as const).every((name) =>
    conditions?.[name] === undefined || conditions[name] === metadata[name]
  );
}

/** Whether an object that is being deleted has no finalizer left. */
function isOver({ metadata }: MemoryObject): boolean {
  const { deletionTimestamp, finalizers = [] } = metadata;
  return deletionTimestamp !== undefined && finalizers.length === 0;
}

/** Selectors of the forms that Coil uses. */
function isSelected(query: URLSearchParams, object: MemoryObject): boolean {
  const terms = (name: string) =>
    (query.get(name) ?? "").split(",").filter((term) => term !== "");
  const matches = (term: string, valueOf: (path: string) => unknown) => {
    const [, path = "", operator, wanted] = /^(.*?)(!?=)(.*)$/.exec(term) ?? [];
    return (`${valueOf(path) ?? ""}` === wanted) === (operator === "=");
  };
  const fieldOf = (path: string) =>
    path.split(".").reduce(
      (value: unknown, key) =>
        (value as Record<string, unknown> | undefined)?.[key],
      object,
    ) ?? (path === "spec.hostNetwork" ? false : undefined);
  return terms("labelSelector")
    .every((term) =>
      matches(term, (label) => object.metadata.labels?.[label])
    ) &&
    terms("fieldSelector").every((term) => matches(term, fieldOf));
}

/** The target after a merge patch (RFC 7386). */
export function mergePatched(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, unknown> = isJsonObject(target)
    ? { ...target }
    : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatched(result[key], value);
  }
  return result;
}

interface JsonPatchStep {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/** RFC 6902, as far as Coil uses it; undefined when a test fails. */
function jsonPatched(
  target: unknown,
  steps: readonly JsonPatchStep[],
): unknown {
  const copy = structuredClone(target);
  for (const { op, path, value } of steps) {
    const keys = path.slice(1).split("/").map((key) =>
      key.replaceAll("~1", "/").replaceAll("~0", "~")
    );
    const last = keys.pop() ?? "";
    const parent = keys.reduce(
      (at: unknown, key) => (at as Record<string, unknown> | undefined)?.[key],
      copy,
    ) as Record<string, unknown> | undefined;
    if (parent === undefined) return undefined;
    if (op === "test") {
      if (JSON.stringify(parent[last]) !== JSON.stringify(value)) {
        return undefined;
      }
    } else if (op !== "remove") parent[last] = value;
    else if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  }
  return copy;
}
