import type { Connection, ConnectionSource } from "./transport.ts";

/** Where kubelet mounts a pod's credentials. */
const SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Tokens are renewed when a fifth of their life is left, so a minute is soon enough. */
const CACHE_MS = 60_000;

/** Options of {@link InClusterSource}; the defaults are those of a pod. */
export interface InClusterOptions {
  readonly dir?: string;
  readonly env?: Pick<Deno.Env, "get">;
  readonly now?: () => number;
}

/**
 * A pod's service account: token and authority are files that kubelet replaces from time to time.
 * @see https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
 */
export class InClusterSource implements ConnectionSource {
  readonly server: string;
  readonly #dir: string;
  readonly #now: () => number;
  #cached:
    | { readonly connection: Connection; readonly readMs: number }
    | undefined;
  #isExpired = false;

  /** @throws {Error} when the environment does not say where the API server is. */
  constructor(options: InClusterOptions = {}) {
    const env = options.env ?? Deno.env;
    const host = env.get("KUBERNETES_SERVICE_HOST");
    const port = env.get("KUBERNETES_SERVICE_PORT");
    if (!host || !port) {
      throw new Error(
        "Cannot find the API server: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set",
      );
    }
    this.server = `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
    this.#dir = options.dir ?? SERVICE_ACCOUNT_DIR;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Returns the data as read at most a minute ago, or older where its files cannot be read now. @throws {Error} when they never could be */
  async current(): Promise<Connection> {
    const cached = this.#cached;
    const isFresh = cached !== undefined && !this.#isExpired &&
      this.#now() - cached.readMs < CACHE_MS;
    if (isFresh) return cached.connection;
    try {
      return await this.#read();
    } catch (err) {
      // A file that is being replaced: what we have may still be good.
      if (cached === undefined) throw err;
      return cached.connection;
    }
  }

  async refresh(): Promise<void> {
    await this.#read();
  }

  /** The authority may be another one now, and a minute is long for a server that is not trusted. */
  expire(): void {
    this.#isExpired = true;
  }

  async #read(): Promise<Connection> {
    // One after the other: when one fails, nothing of the other goes on.
    const token = await Deno.readTextFile(`${this.#dir}/token`);
    const ca = await Deno.readTextFile(`${this.#dir}/ca.crt`);
    const connection = {
      server: this.server,
      tls: { caCerts: [ca] },
      headers: { authorization: `Bearer ${token.trim()}` },
    };
    this.#cached = { connection, readMs: this.#now() };
    this.#isExpired = false;
    return connection;
  }
}
