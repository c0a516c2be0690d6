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
import type { Address } from "../../../lib/inet/mod.ts";
import { COILD_SOCKET } from "../../../lib/names/mod.ts";
import { CommandError } from "../base/errors.ts";

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
export async function askHere(socket: string): Promise<NodeAddresses> {
  return await orSilent(
    askAddresses(socket || await findSocket(), asking()),
  );
}

/** The calls of CNI under way at this node's coild. @throws {CommandError} when it does not answer */
export async function callsHere(socket: string): Promise<readonly CallEntry[]> {
  return await orSilent(askCalls(socket || await findSocket(), asking()));
}

/** Who had an address of this node within a day. @throws {CommandError} when its coild does not answer */
export async function formerHere(
  socket: string,
  address: Address,
): Promise<readonly FormerHolder[]> {
  const path = socket || await findSocket();
  return await orSilent(askFormer(path, { address, ...asking() }));
}

/** Has addresses of this node freed that its coild finds unused. @throws {CommandError} when it does not answer */
export async function releaseHere(
  socket: string,
  request: ReleaseRequest,
): Promise<ReleaseAnswer> {
  const path = socket || await findSocket();
  return await orSilent(askRelease(path, { ...request, ...asking() }));
}

function asking(): { readonly signal: AbortSignal } {
  return { signal: AbortSignal.timeout(ASK_MS) };
}

/** @throws {CommandError} when coild does not answer */
async function orSilent<A>(answer: Promise<A>): Promise<A> {
  try {
    return await answer;
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
