import {
  type KubeList,
  type ListOptions,
  type PatchOptions,
  queryOf,
  type WriteOptions,
} from "../http/options.ts";
import { KubeUnreachableError } from "../http/errors.ts";
import type { KubeCall } from "../http/requester.ts";
import {
  apiVersionOf,
  type PathParts,
  resourcePath,
  type ResourceType,
} from "../api/resource.ts";
import type { KubeObject } from "../api/objects.ts";

/** Parts of a {@link KubeCall}. */
export type CallParts = Omit<KubeCall, "path" | "resource" | "kind"> & {
  readonly query?: URLSearchParams;
};

const JSON_TYPE = "application/json";
/** Content types of patches. */
export const PATCH_TYPES: Record<PatchOptions["kind"], string> = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  // JSON is YAML.
  apply: "application/apply-patch+yaml",
};

/** Makes a call for a kind's path. */
export function toCall<T>(type: ResourceType<T>, parts: CallParts): KubeCall {
  const { query, ...call } = parts;
  const path = resourcePath(type, call);
  const text = query?.toString() ?? "";
  return {
    ...call,
    path: text === "" ? path : `${path}?${text}`,
    resource: type.plural,
    kind: type.kind,
  };
}

/** The namespace to write to. @throws {TypeError} when a namespaced object has none. */
export function namespaceOf<T extends KubeObject>(
  type: ResourceType<T>,
  object: T,
  options: WriteOptions,
): string | undefined {
  if (!type.namespaced) return undefined;
  const namespace = options.namespace ?? object.metadata?.namespace;
  if (namespace === undefined) {
    const name = object.metadata?.name ?? "";
    throw new TypeError(`Cannot write ${type.kind} "${name}": no namespace`);
  }
  return namespace;
}

/** The object with the apiVersion and kind of its type. */
export function typed<T extends KubeObject>(
  type: ResourceType<T>,
  object: T,
): T {
  return { ...object, apiVersion: apiVersionOf(type), kind: type.kind };
}

/** What server-side apply sends: the object with its type and name, which the server wants to see in it too. */
export function appliedObject<T>(
  type: ResourceType<T>,
  target: PathParts,
  patch: unknown,
): KubeObject {
  const object = typeof patch === "object" ? { ...patch } : {};
  const metadata = "metadata" in object && typeof object.metadata === "object"
    ? object.metadata
    : {};
  const { name, namespace } = target;
  return {
    ...object,
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      ...metadata,
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
    },
  };
}

export function listParts(options: ListOptions): CallParts {
  const { namespace, labelSelector, fieldSelector, limit, resourceVersion } =
    options;
  const query = queryOf({
    labelSelector,
    fieldSelector,
    limit,
    resourceVersion,
    continue: options.continue,
  });
  return {
    verb: "list",
    method: "GET",
    namespace,
    query,
    options,
    accept: acceptOf("PartialObjectMetadataList", options),
  };
}

/** Content negotiation of metadata-only answers; a server that cannot do it sends the whole objects. */
export function acceptOf(
  kind: string,
  { metadataOnly }: { metadataOnly?: boolean | undefined },
): string {
  return metadataOnly
    ? `${JSON_TYPE};as=${kind};g=meta.k8s.io;v=v1,${JSON_TYPE}`
    : JSON_TYPE;
}

/** Reads an object. @throws {KubeUnreachableError} when the answer is none */
export function parseObject<T>(body: string, resource: string): T {
  return parseAnswer(body, resource) as T;
}

/** Reads a list. @throws {KubeUnreachableError} when the answer is none */
export function parseList<T>(body: string, resource: string): KubeList<T> {
  const list = parseAnswer(body, resource) as {
    items?: T[];
    metadata?: { resourceVersion?: string; continue?: string };
  };
  const { resourceVersion = "", continue: next } = list.metadata ?? {};
  // What another server leaves out is not gone.
  if (list.items === undefined && resourceVersion === "") {
    throw notOurs(body, resource);
  }
  const more = next === undefined || next === "" ? {} : { continue: next };
  return { items: list.items ?? [], resourceVersion, ...more };
}

function parseAnswer(body: string, resource: string): object {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
  }
  if (typeof answer === "object" && answer !== null) return answer;
  throw notOurs(body, resource);
}

/** A proxy has answered, or the address is another server's. */
function notOurs(body: string, resource: string): KubeUnreachableError {
  const start = JSON.stringify(body.slice(0, 40));
  return new KubeUnreachableError(
    `Cannot read ${resource}: what answered is not an API server: ${start}`,
  );
}
