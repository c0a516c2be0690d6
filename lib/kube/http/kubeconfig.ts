import type { KubeConfig } from "@kubernetes/client-node/config";
import type { Connection, ConnectionSource } from "./transport.ts";

const CACHE_MS = 60_000;

/** Which kubeconfig to use; `$KUBECONFIG` or `~/.kube/config`, and its current context, by default. */
export interface KubeconfigOptions {
  readonly file?: string | undefined;
  readonly context?: string | undefined;
}

/** What `KubeConfig.applyToHTTPSOptions` fills in and we use. */
interface HttpsOptions {
  ca?: string | Uint8Array;
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
  auth?: string;
  headers?: Record<string, string>;
}

/**
 * A kubeconfig, with all its ways of authentication: certificates, tokens, passwords, exec plugins, OIDC.
 *
 * It loads what `@kubernetes/client-node` has for that, 1.3 MB of code, which a process with a service account never does:
 * the whole package, with a class for each kind of object, is 4.1 MB.
 */
export class KubeconfigSource implements ConnectionSource {
  readonly server: string;
  readonly #options: KubeconfigOptions;
  #config: KubeConfig;
  #cached:
    | { readonly connection: Connection; readonly readMs: number }
    | undefined;

  private constructor(config: KubeConfig, options: KubeconfigOptions) {
    this.#config = config;
    this.#options = options;
    this.server = serverOf(config);
  }

  /** @throws {Error} when the configuration names no cluster or asks for what is not supported. */
  static async load(
    options: KubeconfigOptions = {},
  ): Promise<KubeconfigSource> {
    return new KubeconfigSource(await readConfig(options), options);
  }

  async current(): Promise<Connection> {
    const cached = this.#cached;
    if (cached !== undefined && performance.now() - cached.readMs < CACHE_MS) {
      return cached.connection;
    }
    const connection = await connectionOf(this.#config);
    this.#cached = { connection, readMs: performance.now() };
    return connection;
  }

  async refresh(): Promise<void> {
    // A new object, since the old one keeps the tokens of its exec plugins.
    this.#config = await readConfig(this.#options);
    this.#cached = undefined;
  }
}

async function readConfig(options: KubeconfigOptions): Promise<KubeConfig> {
  const files = options.file === undefined ? defaultFiles() : [options.file];
  const { KubeConfig } = await import("@kubernetes/client-node/config");
  const config = new KubeConfig();
  if (options.file === undefined) config.loadFromDefault();
  else config.loadFromFile(options.file);
  if (config.getClusters().length === 0) throw noClusterIn(files);
  if (options.context !== undefined) {
    if (config.getContextObject(options.context) === null) {
      throw new Error(
        `Cannot use context "${options.context}": the kubeconfig does not have it`,
      );
    }
    config.setCurrentContext(options.context);
  }
  return config;
}

/**
 * Where `loadFromDefault()` looks, as far as it may look: without any file it
 * would go on to guess `http://localhost:8080`.
 *
 * @throws {Error} when there is none of them
 */
function defaultFiles(): string[] {
  const listed = Deno.env.get("KUBECONFIG") || homeConfig();
  const files = listed.split(":").filter((file) => file !== "");
  if (files.some(isThere)) return files;
  throw new Error(
    `Cannot find a kubeconfig: ${
      files.join(", ")
    } does not exist, and this process is not in a pod`,
  );
}

function homeConfig(): string {
  const home = Deno.env.get("HOME");
  if (home) return `${home}/.kube/config`;
  throw new Error(
    "Cannot find a kubeconfig: neither $KUBECONFIG nor $HOME is set, and this is not a pod",
  );
}

function isThere(file: string): boolean {
  try {
    return Deno.statSync(file).isFile;
  } catch (err) {
    if (err instanceof Deno.errors.NotFound) return false;
    if (err instanceof Deno.errors.NotADirectory) return false;
    throw err;
  }
}

function noClusterIn(files: readonly string[]): Error {
  return new Error(
    `Cannot use the kubeconfig ${files.join(", ")}: it names no cluster`,
  );
}

function serverOf(config: KubeConfig): string {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    throw new Error(
      `Cannot use context "${config.getCurrentContext()}": its cluster is not in the kubeconfig`,
    );
  }
  for (
    const [name, set] of [
      ["insecure-skip-tls-verify", cluster.skipTLSVerify],
      ["tls-server-name", cluster.tlsServerName],
    ]
  ) {
    if (!set) continue;
    throw new Error(
      `Cannot use cluster "${cluster.name}": ${name} is not supported`,
    );
  }
  const { username, password } = new URL(cluster.server);
  if (username !== "" || password !== "") {
    throw new Error(
      `Cannot use cluster "${cluster.name}": credentials in the server's URL are not supported`,
    );
  }
  return cluster.server.replace(/\/+$/, "");
}

async function connectionOf(config: KubeConfig): Promise<Connection> {
  const https: HttpsOptions = {};
  await config.applyToHTTPSOptions(https);
  const headers = { ...https.headers };
  if (https.auth !== undefined) headers["Authorization"] = basic(https.auth);
  const proxyUrl = config.getCurrentCluster()?.proxyUrl;
  return {
    server: serverOf(config),
    tls: {
      ...(https.ca === undefined ? {} : { caCerts: [textOf(https.ca)] }),
      ...(https.cert === undefined || https.key === undefined
        ? {}
        : { cert: textOf(https.cert), key: textOf(https.key) }),
      ...(proxyUrl === undefined ? {} : { proxy: { url: proxyUrl } }),
    },
    headers,
  };
}

function basic(userAndPassword: string): string {
  const bytes = new TextEncoder().encode(userAndPassword);
  return `Basic ${bytes.toBase64()}`;
}

function textOf(pem: string | Uint8Array): string {
  return typeof pem === "string" ? pem : new TextDecoder().decode(pem);
}
