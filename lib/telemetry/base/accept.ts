import { sleep } from "../../async/mod.ts";
import { codeOf } from "../../errors/mod.ts";
import { getLogger } from "./log.ts";

const log = getLogger("accept");

/** Pause after accept() has failed for want of something, or for an unknown reason. */
const PAUSE_MS = 100;
/** After this a failure that lasts is logged again. */
const REMIND_MS = 30_000;
/** After this without a failure, accept() counts as working again. */
const CALM_MS = 1_000;

/** There is too little of something that closing a connection gives back: descriptors or memory. */
const SHORTAGES: ReadonlySet<string> = new Set(
  ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"],
);

/**
 * The connection that was to be accepted is at fault: its peer, or the way to it, is gone (accept(2) and getpeername(2)
 * of Linux). Peers cause these as often as they like.
 */
const LOST_CONNECTIONS: ReadonlySet<string> = new Set([
  "ECONNABORTED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETUNREACH",
  "ENONET",
  "ENOPROTOOPT",
  "ENOTCONN",
  "EPROTO",
  "ETIMEDOUT",
]);

export interface Acceptor<C> {
  /** Waits for the next connection. */
  accept(): Promise<C>;
}

export interface AcceptOptions<C> {
  /** The listener, in records: an address or a path. */
  readonly address: string;
  /** Takes a connection; does not throw. */
  readonly take: (connection: C) => void;
  /** Closes a connection that can be done without: there is no descriptor or memory for another. */
  readonly relieve?: () => void;
  /** Ends it; the caller closes the listener as well. */
  readonly signal: AbortSignal;
}

/**
 * Accepts connections until the signal aborts. It survives every failure of accept(2), among them that the process or
 * the machine has no descriptor left: the kernel keeps those that connect in the meantime waiting. Such a time is logged at
 * its beginning, every half minute and at its end. A connection that was reset while it waited is passed over: it must
 * not delay those behind it. Never rejects.
 */
export async function acceptAll<C>(
  listener: Acceptor<C>,
  { address, take, relieve, signal }: AcceptOptions<C>,
): Promise<void> {
  const trouble = new Trouble(address);
  while (!signal.aborted) {
    let connection: C;
    try {
      connection = await listener.accept();
    } catch (err) {
      if (signal.aborted) return;
      const code = codeOf(err) ?? "";
      if (LOST_CONNECTIONS.has(code)) continue;
      trouble.note(err);
      if (SHORTAGES.has(code)) relieve?.();
      await sleep(PAUSE_MS, { signal }).catch(() => {});
      continue;
    }
    trouble.noteEnd();
    take(connection);
  }
}

/** Says that connections cannot be accepted, and that they can again. */
class Trouble {
  readonly #address: string;
  #failures = 0;
  #lastMs = -Infinity;
  #saidMs = -Infinity;

  constructor(address: string) {
    this.#address = address;
  }

  note(err: unknown): void {
    this.#failures++;
    this.#lastMs = performance.now();
    if (this.#lastMs - this.#saidMs < REMIND_MS) return;
    this.#saidMs = this.#lastMs;
    const fields = { address: this.#address, failures: this.#failures, err };
    const code = codeOf(err);
    // The process' limit; the machine's.
    const isOutOfFiles = code === "EMFILE" || code === "ENFILE";
    if (!isOutOfFiles) log.warn("Cannot accept connections", fields);
    else {
      log.error(
        "Cannot accept connections: no free file descriptor; raise the limit (RLIMIT_NOFILE), or find the process that leaks them",
        fields,
      );
    }
  }

  noteEnd(): void {
    if (this.#failures === 0) return;
    if (performance.now() - this.#lastMs < CALM_MS) return;
    log.info("Accepting connections again", {
      address: this.#address,
      failures: this.#failures,
    });
    this.#failures = 0;
    this.#saidMs = -Infinity;
  }
}
