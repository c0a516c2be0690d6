import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { abortable, startTimer } from "../async/mod.ts";
import { messageOf } from "../errors/mod.ts";
import { exchange, GrpcError, StatusCode } from "../grpc/mod.ts";
import { hostPort } from "../inet/mod.ts";
import { type CertificateTrouble, certificateTrouble } from "./tls_trouble.ts";

const DEFAULT_TIMEOUT_MS = 60_000;

/** Certificates, as PEM texts. */
export interface TlsOptions {
  /** Authorities to trust in addition to those that Deno trusts anyway: its own list, see DENO_TLS_CA_STORE. */
  readonly caCerts?: readonly string[];
  /** Certificate and key to show to the server. */
  readonly identity?: { readonly cert: string; readonly key: string };
}

/** A server. */
export interface RemoteEndpoint {
  readonly hostname: string;
  readonly port: number;
  /** Without it the connection is in clear. */
  readonly tls?: TlsOptions;
}

/** How {@linkcode callEtcd} calls. */
export interface CallOptions {
  readonly endpoint: RemoteEndpoint;
  /** More header fields; their names in lower case. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Default 60 s, connecting included. The server gets it as well. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** No connection could be made, or TLS failed before the call began. */
export class RemoteUnreachableError extends Error {
  override readonly name = "RemoteUnreachableError";
  /** Whose certificate was refused, if it was that. */
  readonly certificate: CertificateTrouble | undefined;

  constructor(
    message: string,
    options: {
      readonly cause: unknown;
      readonly certificate: CertificateTrouble | undefined;
    },
  ) {
    super(message, { cause: options.cause });
    this.certificate = options.certificate;
  }
}

/**
 * Makes a unary call over a connection of its own and returns the answer,
 * which may have 4 MiB.
 *
 * @throws {RemoteUnreachableError} when no server listens, or a certificate is refused by us
 * @throws {GrpcError} when the call fails, DEADLINE_EXCEEDED when it takes long,
 * UNAVAILABLE when the server closes the connection, as one does that refuses our certificate
 */
export async function callEtcd<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  message: MessageInitShape<I>,
  { endpoint, metadata = {}, signal, timeoutMs = DEFAULT_TIMEOUT_MS }:
    CallOptions,
): Promise<MessageShape<O>> {
  signal?.throwIfAborted();
  const late = new AbortController();
  using _late = startTimer(timeoutMs, () => {
    const code = StatusCode.DEADLINE_EXCEEDED;
    late.abort(new GrpcError(`No answer within ${timeoutMs} ms`, { code }));
  });
  const stop = AbortSignal.any(
    signal === undefined ? [late.signal] : [late.signal, signal],
  );
  using connection = await connect(endpoint, stop);
  const exchanged = exchange(connection, {
    scheme: endpoint.tls ? "https" : "http",
    authority: authorityOf(endpoint),
    method: `/${method.parent.typeName}/${method.name}`,
    message: toBinary(method.input, create(method.input, message)),
    metadata,
    timeoutMs,
  });
  let bytes: Uint8Array;
  try {
    bytes = await abortable(exchanged, stop);
  } catch (cause) {
    if (stop.aborted) {
      connection[Symbol.dispose]();
      await exchanged.catch(() => {});
      throw stop.reason;
    }
    if (cause instanceof GrpcError) throw cause;
    // With TLS 1.3 the server looks at our certificate after the handshake: its refusal comes when we read.
    throw unreachable(endpoint, cause);
  }
  return decode(method.output, bytes);
}

function decode<T extends DescMessage>(
  schema: T,
  bytes: Uint8Array,
): MessageShape<T> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new GrpcError(
      `The answer is not a ${schema.typeName}: ${messageOf(cause)}`,
      {
        code: StatusCode.INTERNAL,
        cause,
      },
    );
  }
}

async function connect(
  endpoint: RemoteEndpoint,
  stop: AbortSignal,
): Promise<Deno.Conn> {
  const connecting = open(endpoint);
  try {
    return await abortable(connecting, stop);
  } catch (error) {
    // Deno 2.9.6 can end neither an attempt to connect nor a handshake: its result is no longer needed.
    if (stop.aborted) connecting.then((late) => late.close(), () => {});
    throw error;
  }
}

async function open(endpoint: RemoteEndpoint): Promise<Deno.Conn> {
  const { hostname, port, tls } = endpoint;
  try {
    if (tls === undefined) return await Deno.connect({ hostname, port });
    const connection = await Deno.connectTls({
      hostname,
      port,
      alpnProtocols: ["h2"],
      ...(tls.caCerts === undefined ? {} : { caCerts: [...tls.caCerts] }),
      ...tls.identity,
    });
    return await shakenHands(connection);
  } catch (cause) {
    throw unreachable(endpoint, cause);
  }
}

function unreachable(
  endpoint: RemoteEndpoint,
  cause: unknown,
): RemoteUnreachableError {
  const why = messageOf(cause);
  const { tls } = endpoint;
  const certificate = tls &&
    certificateTrouble(why, { hasIdentity: tls.identity !== undefined });
  return new RemoteUnreachableError(
    `Cannot connect to ${authorityOf(endpoint)}: ${why}`,
    { cause, certificate },
  );
}

/** Here rather than at the first write: so a bad certificate is not taken for a bad call. */
async function shakenHands(connection: Deno.TlsConn): Promise<Deno.TlsConn> {
  using undo = new DisposableStack();
  undo.use(connection);
  await connection.handshake();
  undo.move();
  return connection;
}

function authorityOf({ hostname, port }: RemoteEndpoint): string {
  return hostPort(hostname, port);
}
