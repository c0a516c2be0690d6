/** An API server in memory: versions, watches, finalizers, preconditions. It knows no kind. */
import type { KubeObject } from "../../lib/kube/mod.ts";
import { mergePatched } from "../../lib/kube/testing.ts";

/** An object as it is stored. */
export interface Stored extends KubeObject {
  metadata: NonNullable<KubeObject["metadata"]> & {
    name: string;
    finalizers?: string[];
    deletionTimestamp?: string;
  };
  spec?: { readonly nodeName?: string; readonly hostNetwork?: boolean };
  status?: unknown;
  ipv4?: string;
  ipv6?: string;
}

/** Something that a watch tells. */
export interface SimEvent {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly plural: string;
  readonly object: Stored;
}

/** Status and body of an answer. */
export interface SimAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** A request, read. */
export interface SimRequest {
  readonly method: string;
  readonly plural: string;
  readonly name: string | undefined;
  /** Only matters for kinds whose names are repeated. */
  readonly namespace?: string | undefined;
  readonly subresource: string | undefined;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly body: unknown;
}

/** How many states a stale list may be from. */
const REMEMBERED = 6;

/** The store. */
export class SimApi {
  version = 1;
  readonly events: SimEvent[] = [];
  readonly #objects = new Map<string, Stored>();
  readonly #past: { version: number; objects: Map<string, Stored> }[] = [];
  #uids = 0;
  readonly #waiting = new Set<() => void>();
  readonly #keepsPast: boolean;
  readonly #repeated: ReadonlySet<string>;
  readonly #admit: (plural: string, object: Stored) => Stored;
  /** Called with each event. */
  onEvent: (event: SimEvent) => void = () => {};
  /** Called when an object is gone for good. */
  onRemoved: (plural: string, object: Stored) => void = () => {};

  /** Without its past it has no events, and no lists of before. */
  constructor(
    { keepsPast = true, repeated = [], admit = (_, object) => object }: {
      readonly keepsPast?: boolean;
      /** Kinds of which objects in several namespaces have one name. */
      readonly repeated?: readonly string[];
      /** What an object becomes that is made. */
      readonly admit?: (plural: string, object: Stored) => Stored;
    } = {},
  ) {
    this.#keepsPast = keepsPast;
    this.#repeated = new Set(repeated);
    this.#admit = admit;
  }

  /** Objects of a kind, as they are. */
  list(plural: string): Stored[] {
    return [...this.#objects].filter(([key]) => key.startsWith(`${plural}/`))
      .map(([, object]) => object);
  }

  /** The first event after a version that fits. */
  nextEvent(
    version: number,
    fits: (event: SimEvent) => boolean,
  ): SimEvent | undefined {
    // Each version has its event, from the second one on.
    for (let at = version - 1; at < this.events.length; at++) {
      const event = this.events[at];
      if (event !== undefined && fits(event)) return event;
    }
    return undefined;
  }

  /** Resolves when something has changed. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  /** Objects of a kind as they were, some changes ago. */
  listPast(
    plural: string,
    age: number,
  ): { readonly version: number; readonly items: Stored[] } {
    const past = this.#past.at(-1 - age);
    if (past === undefined) {
      return { version: this.version, items: this.list(plural) };
    }
    const items = [...past.objects]
      .filter(([key]) => key.startsWith(`${plural}/`))
      .map(([, object]) => object);
    return { version: past.version, items };
  }

  /** Carries a request out. */
  handle(request: SimRequest): SimAnswer {
    const { method, plural, name } = request;
    if (method === "POST") return this.#create(plural, request.body as Stored);
    if (name === undefined) throw new Error(`Cannot ${method} ${plural}`);
    const { namespace } = request;
    const object = this.#objects.get(this.#keyOf(plural, { name, namespace }));
    if (object === undefined) {
      if (!request.contentType.includes("apply-patch")) {
        return refusal(404, "NotFound");
      }
      const applied = request.body as Stored;
      const metadata = {
        ...applied.metadata,
        name,
        ...namespace && { namespace },
      };
      return this.#create(plural, { ...applied, metadata });
    }
    if (method === "GET") return { status: 200, body: object };
    if (method === "DELETE") return this.#delete(request, object);
    if (method === "PUT") return this.#replace(request, object);
    if (method === "PATCH") return this.#patch(request, object);
    throw new Error(`Cannot ${method}`);
  }

  #keyOf(
    plural: string,
    { namespace, name }: {
      readonly namespace?: string | undefined;
      readonly name: string;
    },
  ): string {
    return this.#repeated.has(plural)
      ? `${plural}/${namespace}/${name}`
      : `${plural}/${name}`;
  }

  #create(plural: string, made: Stored): SimAnswer {
    const object = this.#admit(plural, made);
    if (this.#objects.has(this.#keyOf(plural, object.metadata))) {
      return refusal(409, "AlreadyExists");
    }
    const { status: _, ...rest } = object;
    const uid = `uid-${++this.#uids}`;
    return this.#store("ADDED", plural, {
      ...rest,
      metadata: { ...object.metadata, uid, generation: 1 },
    });
  }

  #delete({ plural, body }: SimRequest, object: Stored): SimAnswer {
    const { uid, resourceVersion } = (body as {
      preconditions?: { uid?: string; resourceVersion?: string };
    } | undefined)?.preconditions ?? {};
    const { metadata } = object;
    const isOther = (uid !== undefined && uid !== metadata.uid) ||
      (resourceVersion !== undefined &&
        resourceVersion !== metadata.resourceVersion);
    if (isOther) return refusal(409, "Conflict");
    if ((metadata.finalizers ?? []).length === 0) {
      return this.#remove(plural, object);
    }
    if (metadata.deletionTimestamp !== undefined) {
      return { status: 200, body: object };
    }
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    return this.#store("MODIFIED", plural, {
      ...object,
      metadata: { ...metadata, deletionTimestamp },
    });
  }

  #replace(request: SimRequest, object: Stored): SimAnswer {
    const { plural, subresource } = request;
    const body = request.body as Stored;
    const { resourceVersion, uid } = body.metadata;
    const isStale = resourceVersion !== undefined &&
      resourceVersion !== object.metadata.resourceVersion;
    const isOther = uid !== undefined && uid !== object.metadata.uid;
    if (isStale || isOther) return refusal(409, "Conflict");
    if (subresource === "status") {
      return this.#store("MODIFIED", plural, {
        ...object,
        status: body.status,
      });
    }
    return this.#update(plural, object, body);
  }

  #patch(request: SimRequest, object: Stored): SimAnswer {
    const { plural, subresource, contentType, body } = request;
    if (contentType.includes("json-patch")) {
      const patched = jsonPatch(object, body as JsonStep[]);
      if (patched === undefined) return refusal(422, "Invalid");
      return this.#update(plural, object, patched);
    }
    const patch = body as Stored;
    const expected = patch.metadata?.resourceVersion;
    if (
      expected !== undefined && expected !== object.metadata.resourceVersion
    ) return refusal(409, "Conflict");
    const merged = mergePatched(object, patch) as Stored;
    if (subresource === "status") {
      return this.#store("MODIFIED", plural, {
        ...object,
        status: merged.status,
      });
    }
    return this.#update(plural, object, merged);
  }

  #update(plural: string, before: Stored, after: Stored): SimAnswer {
    const { uid, deletionTimestamp, generation = 1 } = before.metadata;
    const isOther = contentOf(before) !== contentOf(after);
    const metadata = {
      ...after.metadata,
      uid,
      generation: isOther ? generation + 1 : generation,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    };
    const object = { ...after, status: before.status, metadata };
    const isDone = deletionTimestamp !== undefined &&
      (metadata.finalizers ?? []).length === 0;
    return isDone
      ? this.#remove(plural, object as Stored)
      : this.#store("MODIFIED", plural, object as Stored);
  }

  #remove(plural: string, object: Stored): SimAnswer {
    const answer = this.#store("DELETED", plural, object);
    this.#objects.delete(this.#keyOf(plural, object.metadata));
    this.onRemoved(plural, object);
    return answer;
  }

  #notePast(): void {
    this.#past.push({
      version: this.version,
      objects: new Map(this.#objects),
    });
    if (this.#past.length > REMEMBERED) this.#past.shift();
  }

  #store(type: SimEvent["type"], plural: string, object: Stored): SimAnswer {
    if (this.#keepsPast) this.#notePast();
    const version = ++this.version;
    const stored = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: `${version}` },
    };
    this.#objects.set(this.#keyOf(plural, stored.metadata), stored);
    const event = { version, type, plural, object: stored };
    if (this.#keepsPast) this.events.push(event);
    this.onEvent(event);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
    return { status: type === "ADDED" ? 201 : 200, body: stored };
  }
}

/** What a generation is a number of. */
function contentOf({ metadata: _, status: __, ...content }: Stored): string {
  return JSON.stringify(content);
}

/** Whether an object fits a request's selectors, of the forms that Coil uses: `a=b` and `a!=b`, without a comma in them. */
export function isSelected(query: URLSearchParams, object: Stored): boolean {
  const fits = (name: string, valueOf: (key: string) => unknown) =>
    (query.get(name) ?? "").split(",").filter((part) => part !== "")
      .every((part) => {
        const [, key = "", not, value = ""] = /^(.+?)(!?)=(.*)$/.exec(part) ??
          [];
        return (String(valueOf(key) ?? "") === value) !== (not === "!");
      });
  return fits("labelSelector", (key) => object.metadata.labels?.[key]) &&
    fits("fieldSelector", (key) => fieldOf(object, key));
}

function fieldOf(object: Stored, key: string): unknown {
  let value: unknown = object;
  for (const part of key.split(".")) {
    value = (value as Record<string, unknown> | undefined)?.[part];
  }
  return key === "spec.hostNetwork" ? value ?? false : value;
}

function refusal(status: number, reason: string): SimAnswer {
  return {
    status,
    body: { kind: "Status", code: status, reason, message: reason },
  };
}

interface JsonStep {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/** Only what Coil writes: test and remove of members and items; undefined when a test fails. */
function jsonPatch(
  object: Stored,
  steps: readonly JsonStep[],
): Stored | undefined {
  const copy = structuredClone(object);
  for (const { op, path, value } of steps) {
    const keys = path.slice(1).split("/");
    const last = keys.pop() ?? "";
    let parent: unknown = copy;
    for (const key of keys) parent = (parent as Record<string, unknown>)?.[key];
    if (op === "test") {
      const found = (parent as Record<string, unknown> | undefined)?.[last];
      if (found !== value) return undefined;
    } else if (op === "remove" && Array.isArray(parent)) {
      parent.splice(Number(last), 1);
    } else throw new Error(`Cannot apply "${op}" to ${path}`);
  }
  return copy;
}
