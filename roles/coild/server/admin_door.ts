import { SingleFlight } from "../../../lib/async/mod.ts";
import {
  ADDRESSES_PATH,
  ADMIN_SOCKET_SUFFIX,
  type CallEntry,
  CALLS_PATH,
  FORMER_PATH,
  type FormerHolder,
  type NodeAddresses,
  parseReleaseRequest,
  RELEASE_PATH,
  type ReleaseAnswer,
  type ReleaseRequest,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  DEFAULT_LIMITS,
  getLogger,
  HttpServer,
} from "../../../lib/telemetry/mod.ts";
import { listenForRoot } from "./root_socket.ts";

const log = getLogger("admin");

/** An admin, and a program that looks from time to time. A look costs some milliseconds. */
const LIMITS = {
  ...DEFAULT_LIMITS,
  perSecond: 4,
  // Thousands of attachments, more than a node has.
  maxBodyBytes: 1024 * 1024,
  idleMs: 5_000,
};

/** Calls of administrators. */
export interface AdminCalls {
  readonly read: () => Promise<NodeAddresses>;
  /** Who had an address, the last one first. */
  readonly former: (address: Address) => Promise<readonly FormerHolder[]>;
  /** Frees what has leaked, as far as that can be proved. */
  readonly release: (request: ReleaseRequest) => Promise<ReleaseAnswer>;
}

export interface AdminDoorOptions extends AdminCalls {
  /** The calls under way. */
  readonly calls: () => readonly CallEntry[];
  /** The socket for gRPC: that for administrators is beside it. */
  readonly socketPath: string;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/**
 * Lets root on the node, and in coild's container, see the node's addresses:
 * `GET /v1/addresses`, who had one before: `GET /v1/former?address=ADDRESS`, and
 * calls under way: `GET /v1/calls`; and have leaked addresses freed: `POST
 * /v1/release`. Those who ask for addresses at once get one answer. Where there can be no such socket, that is a warning.
 */
export async function openAdminDoor(
  { socketPath, signal, read, ...others }: AdminDoorOptions,
): Promise<{ readonly finished: Promise<void> }> {
  const address = socketPath + ADMIN_SOCKET_SUFFIX;
  const listener = await tryListen(address);
  if (listener === undefined) return { finished: Promise.resolve() };
  const reading = new SingleFlight<NodeAddresses>();
  const doors = { read: () => reading.do("addresses", read), ...others };
  const handler = (request: Request) => answer(request, doors);
  const server = new HttpServer({ address, handler, limits: LIMITS, signal });
  return { finished: server.run(listener) };
}

/** Pods start without this socket. */
async function tryListen(
  address: string,
): Promise<Deno.UnixListener | undefined> {
  try {
    return await listenForRoot(address);
  } catch (err) {
    log.warn("Cannot serve administrators; continuing", { err });
    return undefined;
  }
}

/** The method of each path. */
const METHODS: ReadonlyMap<string, string> = new Map([
  [ADDRESSES_PATH, "GET"],
  [CALLS_PATH, "GET"],
  [FORMER_PATH, "GET"],
  [RELEASE_PATH, "POST"],
]);

async function answer(
  request: Request,
  { read, former, release, calls }: Pick<
    AdminDoorOptions,
    "read" | "former" | "release" | "calls"
  >,
): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const method = METHODS.get(pathname);
  if (method === undefined) return new Response("not found\n", { status: 404 });
  if (request.method !== method) {
    return new Response("method not allowed\n", { status: 405 });
  }
  if (pathname === CALLS_PATH) return Response.json(calls());
  try {
    if (pathname === FORMER_PATH) {
      const address = parseAddress(searchParams.get("address") ?? "");
      return Response.json(await former(address));
    }
    if (method === "GET") return Response.json(await read());
    const wanted = parseReleaseRequest(await request.text());
    return Response.json(await release(wanted));
  } catch (err) {
    if (err instanceof SyntaxError) {
      return new Response(`${err.message}\n`, { status: 400 });
    }
    log.warn("Cannot answer an administrator", { method, err });
    const what = method === "GET" ? "read" : "free";
    const text = `cannot ${what} the node's addresses\n`;
    return new Response(text, { status: 503 });
  }
}

/** @throws {SyntaxError} when it is not an address */
function parseAddress(text: string): Address {
  const address = Address.tryParse(text);
  if (address !== undefined) return address;
  throw new SyntaxError("Cannot read the request: it needs ?address=ADDRESS");
}
