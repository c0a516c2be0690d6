import {
  callUnaryRemote,
  GrpcError,
  type RemoteEndpoint,
  StatusCode,
} from "../grpc/remote/mod.ts";
import { EtcdError, etcdError } from "./errors.ts";
import {
  decodeRangeResponse,
  decodeToken,
  encodeAuthenticateRequest,
  encodeRangeRequest,
  type RangeRequest,
  type RangeResponse,
} from "./messages.ts";

const RANGE = "/etcdserverpb.KV/Range";
const AUTHENTICATE = "/etcdserverpb.Auth/Authenticate";
/** Metadata that carries the token: TokenFieldNameGRPC in api/v3rpc/rpctypes of etcd. */
const TOKEN_FIELD = "token";
const DEFAULT_PAGE_SIZE = 200;
/** How often a read is begun anew because etcd forgot the revision meanwhile. */
const MAX_STARTS = 3;
const MAX_ROOTS = 20;

/** Options of {@linkcode EtcdClient}. */
export interface EtcdClientOptions {
  /** Members of the cluster; each is tried until one answers. */
  readonly endpoints: readonly RemoteEndpoint[];
  /** Who reads, where etcd asks for a password. */
  readonly user?: { readonly name: string; readonly password: string };
  /** Time for each call. Default 5 s. */
  readonly timeoutMs?: number;
  /** Keys asked for at a time. */
  readonly pageSize?: number;
}

/** A key and its value, as texts. */
export interface EtcdEntry {
  /** The key, as UTF-8. */
  readonly key: string;
  /** The value, as UTF-8. */
  readonly value: string;
}

/** All entries below a prefix, as they were at one moment. */
export interface EtcdSnapshot {
  /** The moment: revision of the store. */
  readonly revision: number;
  /** Sorted by key, as etcd sorts: by bytes. */
  readonly entries: readonly EtcdEntry[];
}

/** Reads an etcd cluster. It holds no connection between calls. */
export class EtcdClient {
  readonly #options: EtcdClientOptions;
  #token: string | undefined;

  /** Makes a client; it connects when it is used. */
  constructor(options: EtcdClientOptions) {
    this.#options = options;
  }

  /**
   * Reads all entries whose keys begin with the prefix, page by page, all at the same revision.
   *
   * @throws {EtcdError} when that fails
   */
  async readPrefix(
    prefix: string,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<EtcdSnapshot> {
    for (let start = 1;; start++) {
      try {
        return await this.#readPages(prefix, options.signal);
      } catch (error) {
        const again = error instanceof EtcdError &&
          error.kind === "compacted" && start < MAX_STARTS;
        if (!again) throw error;
      }
    }
  }

  /** The first parts of the keys that there are, as `/coil/`: at most 20. @throws {EtcdError} */
  async roots(options: { readonly signal?: AbortSignal } = {}): Promise<
    string[]
  > {
    const roots: string[] = [];
    let key: Uint8Array = new Uint8Array([0]);
    while (roots.length < MAX_ROOTS) {
      const { entries: [first] } = await this.#range({
        ...{ key, rangeEnd: new Uint8Array([0]), limit: 1, revision: 0 },
        keysOnly: true,
      }, options.signal);
      if (first === undefined) break;
      const text = new TextDecoder().decode(first.key);
      const root = /^\/?[^/]*\/?/.exec(text)?.[0] ?? "";
      roots.push(root);
      if (root === "") break;
      key = prefixEnd(encode(root));
    }
    return roots;
  }

  async #readPages(
    prefix: string,
    signal: AbortSignal | undefined,
  ): Promise<EtcdSnapshot> {
    const rangeEnd = prefixEnd(encode(prefix));
    const entries: EtcdEntry[] = [];
    let key = encode(prefix);
    let [revision, limit] = [0, this.#options.pageSize ?? DEFAULT_PAGE_SIZE];
    for (;;) {
      const page = await this.#tryRange({ key, rangeEnd, limit, revision }, {
        signal,
      });
      if (page === "too large" && limit > 1) {
        limit = Math.ceil(limit / 2);
        continue;
      }
      if (page === "too large") {
        throw new EtcdError(
          `Cannot read etcd: the entry after "${decode(key)}" is too large`,
          { kind: "failed" },
        );
      }
      revision ||= page.revision;
      for (const entry of page.entries) {
        entries.push({ key: decode(entry.key), value: decode(entry.value) });
      }
      const last = page.entries.at(-1);
      if (!page.more || last === undefined) return { revision, entries };
      key = new Uint8Array([...last.key, 0]);
    }
  }

  async #tryRange(
    request: RangeRequest,
    { signal }: { readonly signal: AbortSignal | undefined },
  ): Promise<RangeResponse | "too large"> {
    try {
      return await this.#range(request, signal);
    } catch (error) {
      const { cause } = error instanceof EtcdError ? error : {};
      const isLarge = cause instanceof GrpcError &&
        cause.code === StatusCode.RESOURCE_EXHAUSTED;
      if (isLarge) return "too large";
      throw error;
    }
  }

  async #range(
    request: RangeRequest,
    signal: AbortSignal | undefined,
  ): Promise<RangeResponse> {
    const { user } = this.#options;
    if (user !== undefined) {
      this.#token ??= decodeToken(
        await this.#call(AUTHENTICATE, {
          message: encodeAuthenticateRequest(user),
          signal,
        }),
      );
    }
    const message = encodeRangeRequest(request);
    return decodeRangeResponse(await this.#call(RANGE, { message, signal }));
  }

  /** Asks one member after the other until one answers, if only by refusing. */
  async #call(
    method: string,
    { message, signal }: {
      readonly message: Uint8Array;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<Uint8Array> {
    const { endpoints, timeoutMs = 5_000 } = this.#options;
    const failures: EtcdError[] = [];
    for (const endpoint of endpoints) {
      try {
        return await callUnaryRemote({
          ...{ endpoint, method, message, timeoutMs },
          ...(signal === undefined ? {} : { signal }),
          ...(this.#token === undefined
            ? {}
            : { metadata: { [TOKEN_FIELD]: this.#token } }),
        });
      } catch (cause) {
        const error = etcdError(nameOf(endpoint), cause);
        if (!(error instanceof EtcdError) || error.kind !== "unreachable") {
          throw error;
        }
        failures.push(error);
      }
    }
    const [first] = failures;
    if (first !== undefined && failures.length === 1) throw first;
    throw new EtcdError(
      `Cannot read etcd: no endpoint answers: ${
        failures.map(({ message }) => message).join("; ") || "there is none"
      }`,
      {
        ...{ kind: "unreachable", cause: first },
        // The one that could be reached says most.
        certificate: failures.find(({ certificate }) => certificate)
          ?.certificate,
      },
    );
  }
}

/** The first key after all that begin with the prefix; for none that is "\0", which means "to the end" to etcd. */
export function prefixEnd(prefix: Uint8Array): Uint8Array {
  const end = new Uint8Array(prefix);
  for (let i = end.length - 1; i >= 0; i--) {
    const byte = end[i] ?? 0xff;
    if (byte === 0xff) continue;
    end[i] = byte + 1;
    return end.subarray(0, i + 1);
  }
  return new Uint8Array([0]);
}

function nameOf({ hostname, port, tls }: RemoteEndpoint): string {
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  return `${tls === undefined ? "http" : "https"}://${host}:${port}`;
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
