import { getLogger } from "./log.ts";

const log = getLogger("http");

/** A running HTTP server. */
export interface Listening {
  /** The port it listens on; 0 when it was disabled. */
  readonly port: number;
  /** Resolves when it has stopped. */
  readonly finished: Promise<void>;
}

/** What to listen on. */
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

/** Serves HTTP at a Go-style address until the signal aborts. */
export function serveAt(
  address: string,
  handler: (request: Request) => Response | Promise<Response>,
  options: { readonly signal: AbortSignal },
): Listening {
  const target = parseListenAddress(address);
  if (target === undefined) return { port: 0, finished: Promise.resolve() };
  const server = serve(target, handler, options.signal);
  return { port: server.addr.port, finished: server.finished };
}

function serve(
  target: ListenAddress,
  handler: (request: Request) => Response | Promise<Response>,
  signal: AbortSignal,
): Deno.HttpServer<Deno.NetAddr> {
  const start = (hostname: string) =>
    Deno.serve({
      hostname,
      port: target.port,
      signal,
      onListen() {},
      onError(error) {
        log.error("Cannot answer a request", { err: error });
        return new Response("internal error\n", { status: 500 });
      },
    }, handler);
  if (target.hostname !== undefined) return start(target.hostname);
  try {
    return start("::");
  } catch (error) {
    // No IPv6 in this kernel (EAFNOSUPPORT, EADDRNOTAVAIL).
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return start("0.0.0.0");
  }
}
