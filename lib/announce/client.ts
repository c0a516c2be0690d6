import { startTimer, withTimeout } from "../async/mod.ts";
import type { Address } from "../inet/mod.ts";
import {
  ANNOUNCE_PATH,
  type AnnouncedPod,
  formatAnnouncement,
  formatLossReport,
  formatSourceReport,
  LOSSES_PATH,
  type LossReport,
  parseRefusal,
  type SourceReport,
  SOURCES_PATH,
} from "./wire.ts";
import type { NamespacedName } from "../names/mod.ts";

/**
 * A gateway that does not listen, such as one of upstream Coil, or does not
 * answer, such as one on a node that is gone, is not called for this long:
 * one pod waits for it, not each.
 */
const DEAF_MS = 10_000;
/** A connection over which nothing has been sent for so long is closed. */
const IDLE_MS = 120_000;
/** Far above what a refusal has. */
const MAX_REFUSAL_BYTES = 2_048;

/** A pod of an Egress that takes announcements. */
export interface AnnounceTarget {
  readonly egress: NamespacedName;
  /** The pod's address. */
  readonly address: Address;
}

/** Which pod to announce, and to which gateways. */
export interface AnnounceRequest {
  readonly pod: AnnouncedPod;
  /** Its addresses, one of each family at most. */
  readonly addresses: readonly Address[];
  /** Name of the AddressBlock that they are of. */
  readonly block: string;
  /** The gateways, asked all at the same time. */
  readonly targets: readonly AnnounceTarget[];
}

/**
 * The outcome of an announcement: `accepted`; `refused` by the gateway;
 * `failed` on the way; `late`, without an answer in time; `deaf`, when it
 * failed or was late a short while ago; `no-token`, when there is none to show.
 */
export type AnnounceResult =
  | "accepted"
  | "refused"
  | "failed"
  | "late"
  | "deaf"
  | "no-token";

/** The answer of one gateway. */
export interface AnnounceOutcome extends AnnounceTarget {
  /** What became of it. */
  readonly result: AnnounceResult;
  /** The gateway's reason, or what went wrong. */
  readonly reason?: string;
}

/** The tokens that gateways are shown: each is good at the gateways of one Egress and nowhere else. */
export interface AnnounceTokens {
  /** Returns the token for an Egress; undefined when there is none now. Throws only what the signal says. */
  token(
    egress: NamespacedName,
    options: { readonly signal: AbortSignal },
  ): Promise<string | undefined>;

  /** To be called when a gateway of the Egress refused its token. */
  refused(egress: NamespacedName, token: string): void;
}

/** How an {@linkcode AnnounceClient} works. */
export interface AnnounceClientOptions {
  /** Where the tokens come from. */
  readonly tokens: AnnounceTokens;
  /** TCP port of the gateways. */
  readonly port: number;
  /** How long an announcement or a report may take, everything included. */
  readonly timeoutMs: number;
  /** A clock that only goes forward; for tests. */
  readonly nowMs?: () => number;
}

/** What is sent to a gateway, and where on it. */
interface Message {
  readonly path: string;
  readonly body: string;
  readonly signal: AbortSignal | undefined;
}

interface Peer {
  readonly client: Deno.HttpClient;
  readonly origin: string;
  /** Until then no announcement is sent to it. */
  deafUntilMs: number;
  usedMs: number;
}

/**
 * Announces clients to their gateways. Keeps its connections, asks all gateways
 * at once, never throws and never takes longer than the time limit: an announcement
 * lets a client's first packets pass earlier, and nothing depends on it.
 */
export class AnnounceClient implements Disposable {
  readonly #options: AnnounceClientOptions;
  readonly #nowMs: () => number;
  readonly #peers = new Map<string, Peer>();

  constructor(options: AnnounceClientOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Announces a pod to all targets, and waits for their answers or for the time limit. */
  async announce(
    request: AnnounceRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<readonly AnnounceOutcome[]> {
    if (request.targets.length === 0) return [];
    this.#closeIdle();
    return await Promise.all(
      request.targets.map((target) =>
        this.#post(target, {
          path: ANNOUNCE_PATH,
          body: formatAnnouncement({ ...request, egress: target.egress }),
          signal,
        })
      ),
    );
  }

  /** Reports to a gateway which others of its Egress this node has lost, or nearly. Waits, and never throws, as `announce()`. */
  async report(
    target: AnnounceTarget,
    { signal, ...report }: Omit<LossReport, "egress"> & {
      readonly signal: AbortSignal;
    },
  ): Promise<AnnounceOutcome> {
    this.#closeIdle();
    const body = formatLossReport({ egress: target.egress, ...report });
    return await this.#post(target, { path: LOSSES_PATH, body, signal });
  }

  /** Reports to a gateway with which other sources its packets leave the node. Waits, and never throws, as `announce()`. */
  async reportSources(
    target: AnnounceTarget,
    { translated, signal }: Pick<SourceReport, "translated"> & {
      readonly signal: AbortSignal;
    },
  ): Promise<AnnounceOutcome> {
    this.#closeIdle();
    const body = formatSourceReport({ egress: target.egress, translated });
    return await this.#post(target, { path: SOURCES_PATH, body, signal });
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    for (const { client } of this.#peers.values()) client.close();
    this.#peers.clear();
  }

  async #post(
    target: AnnounceTarget,
    message: Message,
  ): Promise<AnnounceOutcome> {
    return { ...target, ...await this.#send(target, message) };
  }

  async #send(
    { egress, address }: AnnounceTarget,
    { signal, ...message }: Message,
  ): Promise<Omit<AnnounceOutcome, keyof AnnounceTarget>> {
    const peer = this.#peerOf(address);
    if (this.#nowMs() < peer.deafUntilMs) return { result: "deaf" };
    const { timeoutMs, tokens } = this.#options;
    let token: string | undefined;
    let isLate = false;
    using _late = startTimer(timeoutMs, () => isLate = true);
    try {
      return await withTimeout(timeoutMs, async (limited) => {
        token = await tokens.token(egress, { signal: limited });
        if (token === undefined) return { result: "no-token" };
        const answer = await post(peer, { ...message, token, signal: limited });
        if (answer.status === 401) tokens.refused(egress, token);
        if (answer.status === 204) return { result: "accepted" };
        const reason = `${answer.status} ${answer.reason}`;
        return { result: "refused", reason };
      }, { signal });
    } catch (error) {
      // The caller has given up, which says nothing about the gateway.
      if (signal?.aborted) return { result: "late" };
      if (token === undefined) return { result: "no-token" };
      // No answer at all: no process listens, or it is not a gateway of ours.
      peer.deafUntilMs = this.#nowMs() + DEAF_MS;
      if (isLate) return { result: "late" };
      return { result: "failed", reason: rootOf(error) };
    }
  }

  #peerOf(address: Address): Peer {
    const host = address.family === "ipv6" ? `[${address}]` : `${address}`;
    const { port } = this.#options;
    const known = this.#peers.get(host);
    if (known !== undefined) {
      known.usedMs = this.#nowMs();
      return known;
    }
    // A fixed peer: no proxy of the environment shall see the token.
    const client = Deno.createHttpClient({
      proxy: { transport: "tcp", hostname: host, port },
      poolMaxIdlePerHost: 2,
    });
    const peer: Peer = {
      client,
      origin: `http://${host}:${port}`,
      deafUntilMs: -Infinity,
      usedMs: this.#nowMs(),
    };
    this.#peers.set(host, peer);
    return peer;
  }

  #closeIdle(): void {
    const oldestMs = this.#nowMs() - IDLE_MS;
    for (const [host, { client, usedMs }] of this.#peers) {
      if (usedMs > oldestMs) continue;
      client.close();
      this.#peers.delete(host);
    }
  }
}

async function post(
  { client, origin }: Peer,
  { token, path, body, signal }: Omit<Message, "signal"> & {
    readonly token: string;
    readonly signal: AbortSignal;
  },
): Promise<{ status: number; reason: string }> {
  const response = await fetch(`${origin}${path}`, {
    method: "POST",
    headers: {
      "authorization": `Bearer ${token}`,
      "content-type": "application/json",
    },
    body,
    // The token is for this gateway and for no other.
    redirect: "manual",
    client,
    signal,
  });
  const { status } = response;
  return { status, reason: parseRefusal(await readStart(response)) };
}

/** The beginning of a body; the rest of a long one is not read. */
async function readStart(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    bytes += chunk.length;
    if (bytes >= MAX_REFUSAL_BYTES) break;
  }
  return text.slice(0, MAX_REFUSAL_BYTES);
}

/** The message of the innermost cause, which has the system's error. */
function rootOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : rootOf(error.cause);
}
