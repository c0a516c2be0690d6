import {
  ADMIN_SOCKET_SUFFIX,
  askAddresses,
  askCalls,
  askFormer,
  askRelease,
  type CallEntry,
  CoildSilentError,
  type FormerHolder,
  type NodeAddresses,
  type ReleaseAnswer,
  type ReleaseRequest,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { COILD_SOCKET } from "../../../lib/names/mod.ts";

/** How long the coild of a node may take to answer. */
const ASK_MS = 10_000;

/** Where coild's socket is: as Coil's manifests have it, and by default. */
const SOCKETS = ["/run/coil/coild.sock", COILD_SOCKET] as const;

/** Of the flag `--socket`. */
export const SOCKET_HELP: string =
  `Socket of coild, with --local and --nodes; default: ${
    SOCKETS.join(" or ")
  }, if it exists`;

/** What the coild of this node answers, asked at this socket or at the one that is there. @throws {CommandError} when it does not answer */
export function askHere(socket: string): Promise<NodeAddresses> {
  return ask(socket, askAddresses);
}

/** The calls of CNI under way at this node's coild. @throws {CommandError} when it does not answer */
export function callsHere(socket: string): Promise<readonly CallEntry[]> {
  return ask(socket, askCalls);
}

/** Who had an address of this node within a day. @throws {CommandError} when its coild does not answer */
export function formerHere(
  socket: string,
  address: Address,
): Promise<readonly FormerHolder[]> {
  return ask(socket, (path, limit) => askFormer(path, { address, ...limit }));
}

/** Has addresses of this node freed that its coild finds unused. @throws {CommandError} when it does not answer */
export function releaseHere(
  socket: string,
  request: ReleaseRequest,
): Promise<ReleaseAnswer> {
  return ask(
    socket,
    (path, limit) => askRelease(path, { ...request, ...limit }),
  );
}

/** @throws {CommandError} when coild does not answer */
async function ask<A>(
  socket: string,
  request: (path: string, limit: { signal: AbortSignal }) => Promise<A>,
): Promise<A> {
  const path = socket || await findSocket();
  try {
    return await request(path, { signal: AbortSignal.timeout(ASK_MS) });
  } catch (error) {
    if (!(error instanceof CoildSilentError)) throw error;
    throw new CommandError(error.message, { cause: error });
  }
}

/** The first that is there; the first, if none is. */
async function findSocket(): Promise<string> {
  for (const socket of SOCKETS) {
    try {
      await Deno.stat(socket + ADMIN_SOCKET_SUFFIX);
      return socket;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return SOCKETS[0];
}
