/** How a process reaches the simulated API server: late, twice, or never. */
import { onAbort, sleep } from "../../lib/async/mod.ts";
import {
  KubeUnreachableError,
  type Transport,
  type TransportRequest,
  type TransportResponse,
  type TransportStream,
} from "../../lib/kube/mod.ts";
import type { Life, Steps } from "./scheduler.ts";
import {
  isSelected,
  type SimAnswer,
  type SimApi,
  type SimRequest,
} from "./sim_api.ts";

/** What goes wrong, each so often. */
export interface Faults {
  /** A request does not reach the API server. */
  lost: number;
  /** Its answer does not come back. */
  unanswered: number;
  /** A watch ends, or is too old. */
  cut: number;
  /** The kernel refuses. */
  kernel: number;
}

/** Without faults. */
export const NO_FAULTS: Faults = { lost: 0, unanswered: 0, cut: 0, kernel: 0 };

/** What a {@linkcode SimTransport} works with. */
export interface SimTransportOptions {
  readonly api: SimApi;
  readonly scheduler: Steps;
  readonly life: Life;
  /** As they are now. */
  readonly faults: () => Faults;
  /** Told of each request and watch that is sent. */
  readonly onRequest?: (request: SimRequest) => void;
}

/** A {@linkcode Transport} whose every request waits for the scheduler. */
export class SimTransport implements Transport {
  readonly host = "sim:6443";
  readonly #with: SimTransportOptions;

  constructor(options: SimTransportOptions) {
    this.#with = options;
  }

  async request(
    request: TransportRequest,
    { timeoutMs }: { timeoutMs: number },
  ): Promise<TransportResponse> {
    const { status, body } = await this.#unlessOver(request, {
      timeoutMs,
      work: this.#carry(readRequest(request)),
    });
    return { status, headers: new Headers(), body: JSON.stringify(body) };
  }

  async stream(
    request: TransportRequest,
    { maxDurationMs = 120_000 }: { maxDurationMs?: number | undefined },
  ): Promise<TransportStream> {
    const parsed = readRequest(request);
    if (parsed.query.get("watch") === "true") {
      this.#with.onRequest?.(parsed);
      await this.#point(`open ${parsed.plural}`);
      if (this.#happens("lost")) throw unreachable();
      const chunks = this.#watch(parsed, request.signal, maxDurationMs);
      return { status: 200, headers: new Headers(), chunks };
    }
    const answer = await this.#unlessOver(request, {
      timeoutMs: maxDurationMs,
      work: this.#carry(parsed),
    });
    const body = new TextEncoder().encode(JSON.stringify(answer.body));
    async function* chunks() {
      yield body;
    }
    return {
      status: answer.status,
      headers: new Headers(),
      chunks: chunks(),
    };
  }

  refreshCredentials(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {}

  async #carry(request: SimRequest): Promise<SimAnswer> {
    this.#with.onRequest?.(request);
    const label = `${request.method} ${request.plural}/${request.name}`;
    await this.#point(label);
    if (this.#happens("lost")) throw unreachable();
    const answer = this.#handle(request);
    await this.#point(`answer of ${label}`);
    if (this.#happens("unanswered")) throw unreachable();
    return answer;
  }

  #handle(request: SimRequest): SimAnswer {
    const { api } = this.#with;
    const { method, name } = request;
    if (method !== "GET" || name !== undefined) return api.handle(request);
    const { version, items } = this.#list(request);
    return {
      status: 200,
      body: {
        kind: "List",
        metadata: { resourceVersion: `${version}` },
        items,
      },
    };
  }

  #list({ plural, query }: SimRequest) {
    const { api, scheduler } = this.#with;
    // What comes from the cache may be old.
    const isOld = query.get("resourceVersion") === "0";
    const { version, items } = isOld
      ? api.listPast(plural, scheduler.random.below(4))
      : { version: api.version, items: api.list(plural) };
    return { version, items: items.filter((item) => isSelected(query, item)) };
  }

  async *#watch(
    request: SimRequest,
    signal: AbortSignal | undefined,
    maxDurationMs: number,
  ): AsyncGenerator<Uint8Array> {
    const { plural, query } = request;
    const { api, scheduler } = this.#with;
    const encoder = new TextEncoder();
    const line = (type: string, object: unknown) =>
      encoder.encode(`${JSON.stringify({ type, object })}\n`);
    let version = Number(query.get("resourceVersion") ?? api.version);
    const endMs = scheduler.nowMs + maxDurationMs;
    if (query.has("sendInitialEvents")) {
      const list = this.#list(request);
      version = list.version;
      for (const item of list.items) {
        await this.#point(`first ${plural}/${item.metadata.name}`);
        if (this.#happens("cut")) throw unreachable();
        yield line("ADDED", item);
      }
      const annotations = { "k8s.io/initial-events-end": "true" };
      const metadata = { resourceVersion: `${version}`, annotations };
      yield line("BOOKMARK", { metadata });
    }
    for (;;) {
      const next = api.nextEvent(
        version,
        (event) => event.plural === plural && isSelected(query, event.object),
      );
      if (next === undefined) {
        const leftMs = endMs - scheduler.nowMs;
        if (leftMs <= 0) return;
        await Promise.race([api.changed(), sleep(leftMs, { signal })]);
        continue;
      }
      await this.#point(`event ${plural}/${next.object.metadata.name}`);
      signal?.throwIfAborted();
      if (this.#happens("cut")) {
        if (scheduler.random.chance(0.5)) throw unreachable();
        const object = { kind: "Status", code: 410, reason: "Expired" };
        yield line("ERROR", object);
        return;
      }
      version = next.version;
      yield line(next.type, next.object);
    }
  }

  /** The caller leaves when it is told to, or the time is over; the request may yet be carried out. */
  async #unlessOver<T>(
    { signal }: TransportRequest,
    { work, timeoutMs }: {
      readonly work: Promise<T>;
      readonly timeoutMs: number;
    },
  ): Promise<T> {
    work.catch(() => {});
    const stop = new AbortController();
    using _listening = onAbort(signal, () => stop.abort(signal?.reason));
    try {
      return await Promise.race([
        work,
        sleep(timeoutMs, { signal: stop.signal }).then(() => {
          throw unreachable();
        }),
      ]);
    } finally {
      stop.abort();
    }
  }

  #point(label: string): Promise<void> {
    const { scheduler, life } = this.#with;
    return scheduler.point(`${life.name}: ${label}`, life);
  }

  #happens(fault: keyof Faults): boolean {
    const { faults, scheduler } = this.#with;
    return scheduler.random.chance(faults()[fault]);
  }
}

/** The failure of a request that gets no answer. */
export function unreachable(): KubeUnreachableError {
  return new KubeUnreachableError("Cannot reach the API server: simulated");
}

/** `/api/v1/PLURAL/NAME/SUBRESOURCE` or `/apis/GROUP/VERSION/…`; namespaces are left out. */
export function readRequest(request: TransportRequest): SimRequest {
  const url = new URL(request.path, "http://sim");
  const parts = url.pathname.split("/").slice(1);
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const [plural = "", name, subresource] =
    rest[0] === "namespaces" && rest.length > 2 ? rest.slice(2) : rest;
  return {
    method: request.method,
    plural,
    name,
    subresource,
    query: url.searchParams,
    contentType: request.headers["content-type"] ?? "",
    body: request.body === undefined ? undefined : JSON.parse(request.body),
  };
}
