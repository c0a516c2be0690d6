import { sleep } from "../../async/mod.ts";
import { KubeApiError, KubeUnreachableError } from "../../kube/mod.ts";

/** How long to put up with an API server that does not answer. */
export interface PatienceOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called once for each time that the API server is away. */
  readonly onTrouble?: (message: string) => void;
  /** Before another attempt. Default 1 s. */
  readonly pauseMs?: number;
}

const PAUSE_MS = 1_000;
/** An API server that has just started does not know yet who may do what. */
const AFTERMATH_MS = 30_000;

/** Makes requests that wait for an API server which is being restarted. The requests must be idempotent. */
export class Patience {
  readonly #options: PatienceOptions;
  /** When the API server last did not answer. */
  #troubleMs = -Infinity;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Calls `request` until the API server answers, also with a refusal. */
  async ask<T>(request: () => Promise<T>): Promise<T> {
    const { timeoutMs, signal, onTrouble, pauseMs = PAUSE_MS } = this.#options;
    const deadline = performance.now() + timeoutMs;
    let isTold = false;
    for (;;) {
      try {
        return await request();
      } catch (error) {
        signal.throwIfAborted();
        const nowMs = performance.now();
        if (isPassing(error)) this.#troubleMs = nowMs;
        const isAftermath = nowMs - this.#troubleMs < AFTERMATH_MS &&
          error instanceof KubeApiError &&
          (error.isForbidden || error.isUnauthorized);
        const mayPass = isAftermath || isPassing(error);
        if (!mayPass || nowMs >= deadline) throw error;
        if (!isTold) {
          onTrouble?.("The API server does not answer; waiting");
        }
        isTold = true;
      }
      await sleep(pauseMs, { signal });
    }
  }
}

/** 429 also comes while the storage of a new kind is being prepared. */
function isPassing(error: unknown): boolean {
  if (error instanceof KubeUnreachableError) return true;
  return error instanceof KubeApiError &&
    [429, 502, 503, 504].includes(error.status);
}
