import {
  acceptOf,
  appliedObject,
  type CallParts,
  listParts,
  namespaceOf,
  parseList,
  parseObject,
  PATCH_TYPES,
  toCall,
  typed,
} from "./calls.ts";
import { KubeApiError } from "../http/errors.ts";
import { HttpTransport } from "../http/http_transport.ts";
import { InClusterSource } from "../http/in_cluster.ts";
import { KubeconfigSource } from "../http/kubeconfig.ts";
import {
  type CallOptions,
  type CreateOptions,
  type DeleteOptions,
  type GetOptions,
  type KubeList,
  type ListEnvelope,
  type ListFormat,
  type ListOptions,
  type PatchOptions,
  type PatchTarget,
  queryOf,
  type WatchOptions,
  type WriteOptions,
} from "../http/options.ts";
import { readListItems } from "./list_items.ts";
import { Requester, type RequestInfo } from "../http/requester.ts";
import type { ResourceType } from "../api/resource.ts";
import type { ConnectionSource, Transport } from "../http/transport.ts";
import type { KubeObject } from "../api/objects.ts";
import { readWatch, type WatchEvent, watchSeconds } from "./watch.ts";

const LIST_PAGE_SIZE = 500;
const LIST_IDLE_TIMEOUT_MS = 30_000;
/** The API server gives a list a minute; without a limit, a stalled one would wait as long as others are answered. */
const LIST_MAX_DURATION_MS = 120_000;
/** The API server sends a bookmark about every minute: two are missing. */
const WATCH_IDLE_TIMEOUT_MS = 130_000;
/** How much later than asked the server may end a watch. */
const WATCH_GRACE_MS = 30_000;

export interface KubeClientOptions {
  /** Header `user-agent`. */
  readonly userAgent?: string | undefined;
  /** Who owns the fields that are written; needed for server-side apply. */
  readonly fieldManager?: string | undefined;
  readonly onRequest?: ((info: RequestInfo) => void) | undefined;
}

/** Where {@link KubeClient.load} looks for its configuration. */
export interface LoadOptions extends KubeClientOptions {
  /** A kubeconfig file, before all other ways. */
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}

/**
 * Talks to the API server.
 *
 * GET and list are tried up to 4 times, within their timeout, when the server cannot be reached or answers 429 or
 * 5xx, after `Retry-After` or a growing delay with jitter. Other verbs are never repeated, but for status 401, after
 * which every request is tried once more with credentials read again. There is no rate limit of our own.
 */
export class KubeClient implements Disposable {
  readonly #requester: Requester;
  readonly #fieldManager: string | undefined;

  constructor(transport: Transport, options: KubeClientOptions = {}) {
    this.#requester = new Requester(transport, options);
    this.#fieldManager = options.fieldManager;
  }

  /**
   * Makes a client from `options.kubeconfig`, else `$KUBECONFIG`, else the pod's service account, else
   * `~/.kube/config`. `@kubernetes/client-node` is loaded only for a kubeconfig.
   * @throws {Error} when the configuration cannot be used.
   */
  static async load(options: LoadOptions = {}): Promise<KubeClient> {
    const { kubeconfig, context } = options;
    const explicit = Boolean(kubeconfig) || context !== undefined ||
      Boolean(Deno.env.get("KUBECONFIG"));
    const inPod = Boolean(Deno.env.get("KUBERNETES_SERVICE_HOST"));
    if (!explicit && inPod) return KubeClient.inCluster(options);
    const file = kubeconfig === "" ? undefined : kubeconfig;
    const source = await KubeconfigSource.load({ file, context });
    return KubeClient.from(source, options);
  }

  /** Makes a client with the pod's service account. @throws {Error} when this is not a pod. */
  static inCluster(options: KubeClientOptions = {}): KubeClient {
    return KubeClient.from(new InClusterSource(), options);
  }

  /** Makes a client over HTTP. */
  static from(
    source: ConnectionSource,
    options: KubeClientOptions = {},
  ): KubeClient {
    return new KubeClient(new HttpTransport(source), options);
  }

  /** Host and port of the API server. */
  get host(): string {
    return this.#requester.transport.host;
  }

  /** Reads one object. @throws {KubeApiError} when it does not exist (`isNotFound`) or may not be read. */
  async get<T extends KubeObject>(
    type: ResourceType<T>,
    options: GetOptions,
  ): Promise<T> {
    const { name, namespace, resourceVersion } = options;
    return await this.#object(type, {
      verb: "get",
      method: "GET",
      name,
      namespace,
      options,
      query: queryOf({ resourceVersion }),
      accept: acceptOf("PartialObjectMetadata", options),
    });
  }

  /** Reads one object; undefined when it does not exist. @throws {KubeApiError} when it may not be read. */
  async tryGet<T extends KubeObject>(
    type: ResourceType<T>,
    options: GetOptions,
  ): Promise<T | undefined> {
    try {
      return await this.get(type, options);
    } catch (err) {
      if (err instanceof KubeApiError && err.isNotFound) return undefined;
      throw err;
    }
  }

  /** Reads a collection, or a page of it when `limit` is given. */
  async list<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    const answer = await this.#call(type, listParts(options));
    return parseList(answer, type.plural);
  }

  /**
   * Reads a collection, or a page of it, in the format if there is one, and hands over item by item. Without a format
   * the whole is never in memory at once, and it is not tried again by itself, since some items may have been handed
   * over.
   */
  async listItems<T extends KubeObject>(
    type: ResourceType<T>,
    { format, ...options }: ListOptions & {
      readonly format?: ListFormat<T> | undefined;
    },
    onItem: (item: T) => void,
  ): Promise<ListEnvelope> {
    const { timeoutMs: idleTimeoutMs = LIST_IDLE_TIMEOUT_MS } = options;
    const parts = listParts(options);
    if (format !== undefined) {
      const { accept, parse } = format;
      return await this.#requester.sendForBytes(
        toCall(type, { ...parts, accept }),
        (body) => parse(body, onItem),
      );
    }
    const call = toCall(type, parts);
    const chunks = await this.#requester.stream(call, {
      idleTimeoutMs,
      maxDurationMs: LIST_MAX_DURATION_MS,
    });
    return await readListItems<T>(chunks, onItem);
  }

  /** Reads a whole collection page by page; starts again without pages when the pages expired in between. @throws {KubeApiError} when it may not be read. */
  async listAll<T extends KubeObject>(
    type: ResourceType<T>,
    options: Omit<ListOptions, "continue"> = {},
  ): Promise<{ items: T[]; resourceVersion: string }> {
    const items: T[] = [];
    let page: ListOptions = { limit: LIST_PAGE_SIZE, ...options };
    for (;;) {
      try {
        const list = await this.list(type, page);
        items.push(...list.items);
        const { resourceVersion } = list;
        if (list.continue === undefined) return { items, resourceVersion };
        const { resourceVersion: _first, ...rest } = page;
        page = { ...rest, continue: list.continue };
      } catch (err) {
        const expired = err instanceof KubeApiError && err.isGone &&
          page.continue !== undefined;
        if (!expired) throw err;
        items.length = 0;
        page = { ...options };
      }
    }
  }

  /** Creates an object. @throws {KubeApiError} when there is one of its name (`isAlreadyExists`). */
  async create<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: CreateOptions = {},
  ): Promise<T> {
    const { name, subresource } = options;
    return await this.#object(type, {
      verb: "create",
      method: "POST",
      name,
      subresource,
      options,
      namespace: namespaceOf(type, object, options),
      query: this.#writeQuery(options),
      // What is created at a subresource is of an API group of its own.
      body: subresource === undefined ? typed(type, object) : object,
    });
  }

  /** Replaces an object. @throws {KubeApiError} when its resourceVersion is not the current one (`isConflict`). */
  async update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions & { subresource?: string } = {},
  ): Promise<T> {
    return await this.#object(type, {
      verb: "update",
      method: "PUT",
      options,
      name: object.metadata?.name ?? "",
      namespace: namespaceOf(type, object, options),
      subresource: options.subresource,
      query: this.#writeQuery(options),
      body: typed(type, object),
    });
  }

  /** Replaces an object's status. */
  async updateStatus<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const subresource = "status";
    return await this.update(type, object, { ...options, subresource });
  }

  /**
   * Changes an object by a merge patch (RFC 7386), a JSON patch (RFC 6902) or server-side apply, which also creates.
   *
   * A merge patch may carry `metadata.resourceVersion` as a precondition, a JSON patch a `test` operation. What is
   * applied gets its apiVersion, kind and name here.
   *
   * @throws {KubeApiError} when the server refuses, as for a precondition that fails (`isConflict`)
   * @throws {TypeError} when there is no field manager to apply for
   */
  async patch<T extends KubeObject>(
    type: ResourceType<T>,
    target: PatchTarget,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T> {
    const query = this.#writeQuery(options);
    const isApply = options.kind === "apply";
    if (isApply && !query.has("fieldManager")) {
      throw new TypeError(
        "Cannot apply: neither the call nor the client has a fieldManager",
      );
    }
    if (isApply && options.force) query.set("force", "true");
    const { name, namespace } = target;
    const { subresource } = options;
    return await this.#object(type, {
      verb: isApply ? "apply" : "patch",
      method: "PATCH",
      name,
      namespace,
      subresource,
      query,
      body: isApply ? appliedObject(type, target, patch) : patch,
      contentType: PATCH_TYPES[options.kind],
      options: { ...options, signal: options.signal ?? target.signal },
    });
  }

  /** Deletes an object. @throws {KubeApiError} when it is gone (`isNotFound`) or a precondition fails (`isConflict`). */
  async delete<T extends KubeObject>(
    type: ResourceType<T>,
    options: DeleteOptions,
  ): Promise<void> {
    const { name, namespace } = options;
    const { preconditions, propagationPolicy, gracePeriodSeconds } = options;
    await this.#call(type, {
      verb: "delete",
      method: "DELETE",
      name,
      namespace,
      options,
      body: {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions,
        propagationPolicy,
        gracePeriodSeconds,
      },
    });
  }

  /**
   * Yields what happens to a collection after `resourceVersion`, bookmarks included, until the server ends the watch,
   * which it does after 5 to 10 minutes; the caller goes on from the last version seen.
   * @throws {KubeApiError} when the version is too old (`isGone`), also in the middle.
   * @throws {KubeUnreachableError} when the connection breaks or shows no life.
   */
  async *watch<T extends KubeObject>(
    type: ResourceType<T>,
    options: WatchOptions = {},
  ): AsyncGenerator<WatchEvent<T>, void, undefined> {
    const { namespace, resourceVersion, labelSelector, fieldSelector } =
      options;
    const { sendInitialEvents } = options;
    const { timeoutSeconds = watchSeconds() } = options;
    const query = queryOf({
      watch: "true",
      allowWatchBookmarks: "true",
      ...(sendInitialEvents
        ? {
          sendInitialEvents: "true",
          resourceVersionMatch: "NotOlderThan",
        }
        : {}),
      resourceVersion,
      labelSelector,
      fieldSelector,
      timeoutSeconds,
    });
    const call = toCall(type, {
      verb: "watch",
      method: "GET",
      namespace,
      query,
      options,
      accept: acceptOf("PartialObjectMetadata", options),
    });
    const { idleTimeoutMs = WATCH_IDLE_TIMEOUT_MS } = options;
    const maxDurationMs = timeoutSeconds * 1000 + WATCH_GRACE_MS;
    const timeouts = { idleTimeoutMs, maxDurationMs };
    const chunks = await this.#requester.stream(call, timeouts);
    options.onOpen?.();
    yield* readWatch<T>(`watch ${type.plural}`, chunks);
  }

  /** Makes a request of any kind and returns the answer's body. @throws {KubeApiError} when its status is not 2xx. */
  async raw(
    path: string,
    options: CallOptions & { method?: string; body?: unknown } = {},
  ): Promise<string> {
    const { method = "GET", body } = options;
    return await this.#requester.send({
      verb: method.toLowerCase(),
      method,
      path,
      resource: "",
      body,
      options,
    });
  }

  /** Ends the connections; running requests fail. */
  close(): void {
    this.#requester.transport.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #writeQuery(options: WriteOptions): URLSearchParams {
    return queryOf({
      fieldManager: options.fieldManager ?? this.#fieldManager,
    });
  }

  async #call<T>(type: ResourceType<T>, parts: CallParts): Promise<string> {
    return await this.#requester.send(toCall(type, parts));
  }

  async #object<T>(type: ResourceType<T>, parts: CallParts): Promise<T> {
    return parseObject(await this.#call(type, parts), type.plural);
  }
}
