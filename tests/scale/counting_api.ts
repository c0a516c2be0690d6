// A model API server that the product's own clients talk to: it answers, and
// counts what each request, watch and event costs.
import { onAbort } from "../../lib/async/mod.ts";
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "../../lib/kube/mod.ts";
import {
  isSelected,
  SimApi,
  type SimEvent,
  type SimRequest,
  type Stored,
} from "../schedules/sim_api.ts";
import { readRequest, unreachable } from "../schedules/sim_transport.ts";
import type { SimClock } from "./clock.ts";
import type { EventInfo, ModelServer } from "./model_server.ts";
import type { Reach } from "./patterns.ts";
import { BYTES, type Plural } from "./size.ts";

/** From a request to its answer, and from a write to its events. */
const ANSWER_MS = 5;
/** Each watch gets a bookmark so often. */
const BOOKMARK_S = 60;

/** A request, with what makes it expensive. */
export interface CountedRequest extends SimRequest {
  readonly atMs: number;
  readonly namespace: string | undefined;
  /** What a watch, or a list, is selected by. */
  readonly by: Reach;
}

interface Watch {
  readonly request: CountedRequest;
  /** What an index of the API server finds it by. */
  readonly group: string;
  readonly lines: Uint8Array[];
  readonly shown: Shown;
  /** What it ends with: an error, or none. */
  end?: { readonly error: unknown };
  wake: () => void;
}

/** How a client is connected. */
export interface ConnectOptions {
  /** What the client is shown of an object, if it is shown at all. */
  readonly view?: (plural: string, object: Stored) => Stored | undefined;
  readonly onRequest?: (request: CountedRequest) => void;
}

/** The server; times are those of the clock. */
export class CountingApi {
  readonly #clock: SimClock;
  readonly #server: ModelServer;
  readonly #api = new SimApi({
    keepsPast: false,
    repeated: ["rolebindings", "serviceaccounts"],
    admit,
  });
  readonly #watches = new Map<string, Set<Watch>>();
  /** One part after the other gets its bookmarks. */
  #bookmarked: Watch[][] = Array.from({ length: BOOKMARK_S }, () => []);
  #opened = 0;
  /** Versions before this one are too old for a watch. */
  #oldest = 0;
  #isAway = false;
  /** The event of the write under way. */
  #event: SimEvent | undefined;
  /** Called with each event of an object that Coil wrote. */
  onWritten: (event: SimEvent) => void = () => {};

  constructor(
    { clock, server }: {
      readonly clock: SimClock;
      readonly server: ModelServer;
    },
  ) {
    this.#clock = clock;
    this.#server = server;
    this.#api.onEvent = (event) => this.#event = event;
    this.#bookmark();
  }

  /** Objects of a kind, as they are. */
  list(plural: string): Stored[] {
    return this.#api.list(plural);
  }

  /** Another program than Coil makes a request. */
  byOthers(
    request: Pick<SimRequest, "method" | "plural"> & Partial<SimRequest>,
  ): void {
    this.#api.handle({
      name: undefined,
      subresource: undefined,
      query: new URLSearchParams(),
      contentType: "",
      body: undefined,
      ...request,
    });
    const event = this.#event;
    this.#event = undefined;
    if (event === undefined) return;
    this.#count().event(event.plural, this.#send(event));
  }

  /** Ends all connections, and answers nothing for so long; it knows no earlier version afterwards. */
  restart(awayMs: number): void {
    this.#isAway = true;
    for (const watches of this.#watches.values()) {
      for (const watch of watches) end(watch, { error: unreachable() });
    }
    this.#clock.after(awayMs, () => {
      this.#isAway = false;
      this.#oldest = ++this.#api.version;
    });
  }

  /** How a client reaches it. */
  connect(
    { view: shown = asIs, onRequest = () => {} }: ConnectOptions = {},
  ): Transport {
    return {
      host: "model:6443",
      request: (request) => this.#answer(request, { shown, onRequest }),
      stream: async (request) => {
        const counted = this.#read(request);
        if (counted.query.get("watch") === "true") {
          return await this.#open(counted, { request, shown, onRequest });
        }
        const answer = await this.#answer(request, { shown, onRequest });
        async function* chunks() {
          yield encode(answer.body);
        }
        return { ...answer, chunks: chunks() };
      },
      refreshCredentials: () => Promise.resolve(),
      close() {},
    };
  }

  /** Counts at the time of the clock. */
  #count(): ModelServer {
    this.#server.setTime(this.#clock.nowMs);
    return this.#server;
  }

  #read(request: TransportRequest): CountedRequest {
    const read = readRequest(request);
    const [, namespace] = /\/namespaces\/([^/]+)\/[^/]/.exec(request.path) ??
      [];
    const by = reachOf(read.query, namespace);
    return { ...read, namespace, by, atMs: this.#clock.nowMs };
  }

  async #answer(
    request: TransportRequest,
    { shown, onRequest }: Client,
  ): Promise<TransportResponse> {
    const counted = this.#read(request);
    onRequest(counted);
    await this.#arrive(request.signal);
    const { method, plural, name } = counted;
    const answer = method === "GET" && name === undefined
      ? this.#list(counted)
      : this.#api.handle(counted);
    const event = this.#event;
    this.#event = undefined;
    if (event !== undefined) {
      this.#count().write(plural, this.#send(event));
      this.onWritten(event);
    } else if (method !== "GET" || name !== undefined) this.#count().get();
    const { status, body } = answer;
    const text = status < 300 && name !== undefined
      ? shown(plural, body as Stored) ?? body
      : body;
    return { status, headers: new Headers(), body: JSON.stringify(text) };
  }

  /** The way to the server, which may be away. */
  async #arrive(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve) => this.#clock.after(ANSWER_MS, resolve));
    signal?.throwIfAborted();
    if (this.#isAway) throw unreachable();
  }

  #list(request: CountedRequest) {
    const items = this.#selected(request);
    const looked = this.#looked(request, items.length);
    const { plural } = request;
    this.#count().list({
      looked,
      listed: items.length,
      bytes: bytesOf(plural),
    });
    const metadata = { resourceVersion: `${this.#api.version}` };
    return { status: 200, body: { kind: "List", metadata, items } };
  }

  #selected({ plural, namespace, query }: CountedRequest): Stored[] {
    return this.#api.list(plural).filter((object) =>
      (namespace === undefined || namespace === namespaceOf(object)) &&
      isSelected(query, object)
    );
  }

  #looked({ plural, by }: CountedRequest, listed: number): number {
    return by === "label" ? this.#api.list(plural).length : listed;
  }

  async #open(
    counted: CountedRequest,
    { request: { signal }, shown, onRequest }: Client & {
      readonly request: TransportRequest;
    },
  ): Promise<TransportStream> {
    onRequest(counted);
    await this.#arrive(signal);
    const { plural, by, query } = counted;
    const lines: Uint8Array[] = [];
    const answer = (chunks: AsyncIterable<Uint8Array>) => ({
      status: 200,
      headers: new Headers(),
      chunks,
    });
    const isAll = query.has("sendInitialEvents");
    const version = Number(query.get("resourceVersion"));
    if (!isAll && version < this.#oldest) {
      this.#count().get();
      return answer(expired());
    }
    if (isAll) {
      const items = this.#selected(counted);
      const looked = this.#looked(counted, items.length);
      const listed = items.length;
      this.#count().read({ looked, listed, bytes: bytesOf(plural) });
      for (const item of items) {
        const object = shown(plural, item);
        if (object !== undefined) lines.push(line("ADDED", object));
      }
      lines.push(this.#bookmarkLine({ "k8s.io/initial-events-end": "true" }));
    }
    const watch: Watch = {
      request: counted,
      group: groupOf(counted),
      lines,
      wake: () => {},
      shown,
    };
    this.#count().open([{ type: { plural }, by }], 1);
    setOf(this.#watches, watch.group).add(watch);
    this.#bookmarked[this.#opened++ % BOOKMARK_S]?.push(watch);
    return answer(this.#follow(watch, signal));
  }

  /** What a watch says, until it or its client ends it. */
  async *#follow(
    watch: Watch,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array> {
    const { plural, by, query } = watch.request;
    const seconds = Number(query.get("timeoutSeconds"));
    using _timer = this.#clock.after(1000 * seconds, () => end(watch));
    using _abort = onAbort(signal, () => end(watch, { error: signal?.reason }));
    try {
      for (;;) {
        const next = watch.lines.shift();
        if (next !== undefined) yield next;
        else if (watch.end === undefined) {
          await new Promise<void>((resolve) => watch.wake = resolve);
        } else if (watch.end.error === undefined) return;
        else throw watch.end.error;
      }
    } finally {
      end(watch);
      this.#watches.get(watch.group)?.delete(watch);
      this.#count().open([{ type: { plural }, by }], -1);
    }
  }

  /** Sends an event to those who want it, and says how many of an index or a label do. */
  #send({ type, plural, object }: SimEvent): EventInfo {
    let wanted = 0;
    const texts = new Map<Shown, Uint8Array | undefined>();
    for (const group of groupsOf(plural, object)) {
      for (const watch of this.#watches.get(group) ?? []) {
        if (!isSelected(watch.request.query, object)) continue;
        if (watch.request.by !== "all") wanted++;
        const { shown } = watch;
        if (!texts.has(shown)) {
          const seen = shown(plural, object);
          texts.set(shown, seen && line(type, seen));
        }
        const text = texts.get(shown);
        if (text !== undefined) say(watch, text);
      }
    }
    return { bytes: bytesOf(plural), wanted };
  }

  #bookmarkLine(annotations?: object): Uint8Array {
    const resourceVersion = `${this.#api.version}`;
    return line("BOOKMARK", { metadata: { resourceVersion, annotations } });
  }

  /** Once a second, for the watches whose turn it is. */
  #bookmark(): void {
    const turn = Math.floor(this.#clock.nowMs / 1000) % BOOKMARK_S;
    const open = (this.#bookmarked[turn] ?? []).filter(({ end }) => !end);
    this.#bookmarked[turn] = open;
    if (open.length > 0) {
      const text = this.#bookmarkLine();
      for (const watch of open) say(watch, text);
      this.#count().bookmarks(open.length);
    }
    this.#clock.after(1000, () => this.#bookmark());
  }
}

/** The server gives a Service its address. */
function admit(plural: string, object: Stored): Stored {
  if (plural !== "services") return object;
  const clusterIPs = ["10.96.0.10"];
  return { ...object, spec: { clusterIPs, ...object.spec } as object };
}

/** What a watch says that begins at too old a version. */
async function* expired(): AsyncGenerator<Uint8Array> {
  const object = { kind: "Status", code: 410, reason: "Expired" };
  yield line("ERROR", object);
}

/** What a client sees of an object. */
type Shown = NonNullable<ConnectOptions["view"]>;

interface Client extends Required<Pick<ConnectOptions, "onRequest">> {
  readonly shown: Shown;
}

function asIs(_plural: string, object: Stored): Stored {
  return object;
}

/** Which of its indexes the API server finds a watch by, if any. */
function reachOf(
  query: URLSearchParams,
  namespace: string | undefined,
): Reach {
  const fields = query.get("fieldSelector") ?? "";
  if (/(^|,)metadata\.name=/.test(fields)) return "name";
  if (/(^|,)spec\.nodeName=/.test(fields)) return "node";
  if (namespace !== undefined) return "namespace";
  return query.has("labelSelector") ? "label" : "all";
}

function groupOf({ plural, namespace, by, query }: CountedRequest): string {
  const fields = query.get("fieldSelector") ?? "";
  if (by === "namespace") return `${plural} in ${namespace}`;
  return by === "name" || by === "node" ? `${plural} ${fields}` : plural;
}

/** Groups of watches that an object may be for. */
function groupsOf(plural: string, { metadata, spec }: Stored): string[] {
  return [
    plural,
    `${plural} in ${metadata.namespace}`,
    `${plural} metadata.name=${metadata.name}`,
    `${plural} spec.nodeName=${spec?.nodeName}`,
  ];
}

function setOf<T>(sets: Map<string, Set<T>>, key: string): Set<T> {
  const known = sets.get(key) ?? new Set<T>();
  sets.set(key, known);
  return known;
}

function say(watch: Watch, text: Uint8Array): void {
  watch.lines.push(text);
  watch.wake();
}

function end(watch: Watch, how: Watch["end"] = { error: undefined }): void {
  watch.end ??= how;
  watch.wake();
}

function namespaceOf({ metadata }: Stored): string | undefined {
  return metadata.namespace;
}

function bytesOf(plural: string): number {
  return BYTES[plural as Plural] ?? 0;
}

function line(type: string, object: unknown): Uint8Array {
  return encode(`${JSON.stringify({ type, object })}\n`);
}

const encoder = new TextEncoder();

function encode(text: string): Uint8Array {
  return encoder.encode(text);
}
