import { SingleFlight } from "../../../lib/async/mod.ts";
import {
  ADDRESSES_PATH,
  ADMIN_SOCKET_SUFFIX,
  type NodeAddresses,
} from "../../../lib/cnirpc/inspection/mod.ts";
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
  maxBodyBytes: 0,
  idleMs: 5_000,
};

export interface AdminDoorOptions {
  /** The socket for gRPC: that for administrators is beside it. */
  readonly socketPath: string;
  readonly read: () => Promise<NodeAddresses>;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/**
 * Lets root on the node, and in coild's container, see the node's addresses:
 * `GET /v1/addresses`. Nothing can be changed here. Those who ask at once get
 * one answer. Where there can be no such socket, that is a warning.
 */
export async function openAdminDoor(
  { socketPath, read, signal }: AdminDoorOptions,
): Promise<{ readonly finished: Promise<void> }> {
  const address = socketPath + ADMIN_SOCKET_SUFFIX;
  const listener = await tryListen(address);
  if (listener === undefined) return { finished: Promise.resolve() };
  const reading = new SingleFlight<NodeAddresses>();
  const handler = (request: Request) =>
    answer(request, () => reading.do("addresses", read));
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

async function answer(
  request: Request,
  read: () => Promise<NodeAddresses>,
): Promise<Response> {
  if (new URL(request.url).pathname !== ADDRESSES_PATH) {
    return new Response("not found\n", { status: 404 });
  }
  if (request.method !== "GET") {
    return new Response("method not allowed\n", { status: 405 });
  }
  try {
    return Response.json(await read());
  } catch (err) {
    log.warn("Cannot read the node's addresses", { err });
    return new Response("cannot read the node's addresses\n", { status: 503 });
  }
}
