import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { GrpcError, StatusCode } from "../grpc/mod.ts";
import { callEtcd, type RemoteEndpoint } from "./call.ts";
import { EtcdError, etcdError } from "./errors.ts";
import {
  Auth,
  KV,
  type RangeRequestSchema,
  type RangeResponse,
} from "./gen/etcd/rpc_pb.ts";

type RangeRequest = MessageInitShape<typeof RangeRequestSchema>;

/** Metadata that carries the token: TokenFieldNameGRPC in api/v3rpc/rpctypes of etcd. */
const TOKEN_FIELD = "token";
const DEFAULT_PAGE_SIZE = 200;
/** How often a read is begun again because etcd forgot the revision in between. */
const MAX_STARTS = 3;
const MAX_ROOTS = 20;

/** Which etcd is read, and how. */
export interface EtcdClientOptions {
  /** Members of the cluster; each is tried until one answers. */
  readonly endpoints: readonly RemoteEndpoint[];
  /** The user, where etcd asks for a password. */
  readonly user?: { readonly name: string; readonly password: string };
  /** Time for each call. Default 5 s. */
  readonly timeoutMs?: number;
  /** Keys asked for at a time. Default 200. */
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
      const rangeEnd = new Uint8Array([0]);
      const { kvs: [first] } = await this.#range(
        { key, rangeEnd, limit: 1n, keysOnly: true },
        options.signal,
      );
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
    let limit = this.#options.pageSize ?? DEFAULT_PAGE_SIZE;
    let revision = 0n;
    for (;;) {
      const request = { key, rangeEnd, limit: BigInt(limit), revision };
      const page = await this.#tryRange(request, signal);
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
      revision ||= page.header?.revision ?? 0n;
      for (const { key, value } of page.kvs) {
        entries.push({ key: decode(key), value: decode(value) });
      }
      const last = page.kvs.at(-1);
      if (!page.more || last === undefined) {
        return { revision: Number(revision), entries };
      }
      key = new Uint8Array([...last.key, 0]);
    }
  }

  async #tryRange(
    request: RangeRequest,
    signal: AbortSignal | undefined,
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
    this.#token ??= await this.#authenticate(signal);
    return await this.#call(KV.method.range, request, signal);
  }

  async #authenticate(
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    const { user } = this.#options;
    if (user === undefined) return undefined;
    const { authenticate } = Auth.method;
    const { token } = await this.#call(authenticate, user, signal);
    if (token !== "") return token;
    throw new EtcdError("Cannot read etcd: its answer has no token", {
      kind: "failed",
    });
  }

  /** Asks one member after the other until one answers, if only by refusing. */
  async #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    message: MessageInitShape<I>,
    signal: AbortSignal | undefined,
  ): Promise<MessageShape<O>> {
    const metadata: Record<string, string> = this.#token === undefined
      ? {}
      : { [TOKEN_FIELD]: this.#token };
    const { endpoints, timeoutMs = 5_000 } = this.#options;
    const failures: EtcdError[] = [];
    for (const endpoint of endpoints) {
      try {
        const options = { endpoint, metadata, signal, timeoutMs };
        return await callEtcd(method, message, options);
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
        kind: "unreachable",
        cause: first,
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
