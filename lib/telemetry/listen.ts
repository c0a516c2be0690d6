import {
  DEFAULT_LIMITS,
  type HttpHandler,
  type HttpLimits,
  HttpServer,
} from "./http/mod.ts";
import { describeError } from "./base/log_format.ts";

/** A running HTTP server. */
export interface Listening {
  /** The port it listens on; 0 when it was disabled. */
  readonly port: number;
  /** Resolves when it has stopped. */
  readonly finished: Promise<void>;
}

export interface ListenAddress {
  /** Absent: all addresses of both families. */
  readonly hostname?: string;
  /** 0 lets the kernel choose. */
  readonly port: number;
}

/**
 * Parses an address as Go's net.Listen takes it: ":9384", "127.0.0.1:0", "[::1]:9384". The bare "0" means none.
 *
 * @throws {SyntaxError} when it is something else
 */
export function parseListenAddress(text: string): ListenAddress | undefined {
  if (text === "0") return undefined;
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]\s]*)):([0-9]{1,5})$/.exec(
    text,
  );
  const port = Number(match?.[3]);
  if (match === null || port > 65535) {
    throw new SyntaxError(
      `Cannot parse listen address: needs "host:port" or ":port", got ${
        JSON.stringify(text)
      }`,
    );
  }
  const hostname = match[1] ?? match[2] ?? "";
  return hostname === "" ? { port } : { hostname, port };
}

export interface ServeAtOptions {
  /** The flag that the address was given by, e.g. "--metrics-addr". */
  readonly flag: string;
  /** Bounds other than the usual ones. */
  readonly limits?: Partial<HttpLimits>;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/** An address that cannot be listened at. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/**
 * Serves HTTP at a Go-style address until the signal aborts.
 *
 * @throws {ListenError} when the address cannot be had; it names address and flag
 */
export function serveAt(
  address: string,
  handler: HttpHandler,
  { flag, limits, signal }: ServeAtOptions,
): Listening {
  const target = parseListenAddress(address);
  if (target === undefined) return { port: 0, finished: Promise.resolve() };
  let listener: Deno.TcpListener;
  try {
    listener = listen(target);
  } catch (error) {
    throw toListenError(error, { address, flag });
  }
  const server = new HttpServer({
    address,
    handler,
    limits: { ...DEFAULT_LIMITS, ...limits },
    signal,
  });
  return { port: listener.addr.port, finished: server.run(listener) };
}

function listen({ hostname, port }: ListenAddress): Deno.TcpListener {
  if (hostname !== undefined) return Deno.listen({ hostname, port });
  try {
    return Deno.listen({ hostname: "::", port });
  } catch (error) {
    // No IPv6 in this kernel (EAFNOSUPPORT, EADDRNOTAVAIL).
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return Deno.listen({ hostname: "0.0.0.0", port });
  }
}

function toListenError(
  cause: unknown,
  { address, flag }: { readonly address: string; readonly flag: string },
): ListenError {
  const [found, advice] = cause instanceof Deno.errors.AddrInUse
    ? ["another process uses the address", "stop it, or set another address"]
    : [describeError(cause), "set an address of this machine"];
  return new ListenError(
    `Cannot listen at "${address}" (${flag}): ${found}; ${advice}`,
    { cause },
  );
}
