import { exchange, Stop } from "../client.ts";
import { GrpcError } from "../status.ts";
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

/** Options of {@linkcode callUnaryRemote}. */
export interface RemoteCallOptions {
  readonly endpoint: RemoteEndpoint;
  /** `/package.Service/Method` */
  readonly method: string;
  readonly message: Uint8Array;
  /** More header fields; their names in lower case. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Default 60 s, connecting included. The server is told as well. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
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
 * @throws {RemoteUnreachableError} when nobody listens, or a certificate is refused by us
 * @throws {GrpcError} when the call fails, DEADLINE_EXCEEDED when it takes long,
 * UNAVAILABLE when the server closes the connection, as one does that refuses our certificate
 */
export async function callUnaryRemote(
  options: RemoteCallOptions,
): Promise<Uint8Array> {
  const { endpoint, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  signal?.throwIfAborted();
  using stop = new Stop(timeoutMs, signal);
  try {
    using connection = await connect(endpoint, stop);
    stop.closeOnStop(connection);
    return await talk(connection, { ...options, timeoutMs });
  } catch (error) {
    throw stop.reason ?? error;
  }
}

async function talk(
  connection: Deno.Conn,
  { endpoint, ...request }: RemoteCallOptions & { readonly timeoutMs: number },
): Promise<Uint8Array> {
  try {
    return await exchange(connection, {
      ...request,
      scheme: endpoint.tls === undefined ? "http" : "https",
      authority: authorityOf(endpoint),
    });
  } catch (cause) {
    if (cause instanceof GrpcError) throw cause;
    // With TLS 1.3 the server looks at our certificate after the handshake: its refusal comes when we read.
    throw unreachable(endpoint, cause);
  }
}

async function connect(
  endpoint: RemoteEndpoint,
  stop: Stop,
): Promise<Deno.Conn> {
  const connecting = open(endpoint);
  const connection = await Promise.race([connecting, stop.stopped]);
  if (connection !== undefined) return connection;
  // Deno 2.9.6 can end neither an attempt to connect nor a handshake: what comes of it is not wanted any more.
  connecting.then((late) => late.close(), () => {});
  throw stop.reason;
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
  const why = cause instanceof Error ? cause.message : String(cause);
  const { tls } = endpoint;
  const certificate = tls &&
    certificateTrouble(why, { hasIdentity: tls.identity !== undefined });
  return new RemoteUnreachableError(
    `Cannot connect to ${authorityOf(endpoint)}: ${why}`,
    { cause, certificate },
  );
}

/** Here rather than at the first write, a bad certificate is told from a bad call. */
async function shakenHands(connection: Deno.TlsConn): Promise<Deno.TlsConn> {
  using undo = new DisposableStack();
  undo.use(connection);
  await connection.handshake();
  undo.move();
  return connection;
}

function authorityOf({ hostname, port }: RemoteEndpoint): string {
  return hostname.includes(":")
    ? `[${hostname}]:${port}`
    : `${hostname}:${port}`;
}
