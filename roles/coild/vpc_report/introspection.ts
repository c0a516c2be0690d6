import { untilAborted } from "../../../lib/async/mod.ts";
import {
  DEFAULT_LIMITS,
  getLogger,
  ListenError,
  type Listening,
  serveAt,
} from "../../../lib/telemetry/mod.ts";
import { type InspectionFacts, ipManagerAnswer } from "./inspection.ts";
import { upstreamEnis } from "./upstream_enis.ts";

const log = getLogger("vpc");

/** An admin, and programs that look from time to time. A look costs some milliseconds. */
const LIMITS = {
  ...DEFAULT_LIMITS,
  maxConnections: 16,
  maxPerPeer: 8,
  perSecond: 10,
  maxBodyBytes: 0,
  idleMs: 5_000,
};

const ANSWERS: Readonly<Record<string, (facts: InspectionFacts) => unknown>> = {
  "/v1/enis": upstreamEnis,
  "/ip-manager": ipManagerAnswer,
};

const COMMANDS = { AvailableCommands: Object.keys(ANSWERS) };

export interface IntrospectionOptions {
  /** Go-style address; empty or "0" serves nothing. */
  readonly address: string;
  readonly facts: () => Promise<InspectionFacts>;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/** Shows programs on the node its ENIs and addresses. Where it cannot listen, that is a warning: pods do not need it. */
export function serveIntrospection(
  { address, facts, signal }: IntrospectionOptions,
): Listening {
  const none = { port: 0, finished: untilAborted(signal) };
  if (address === "" || address === "0") return none;
  const handler = (request: Request) => answer(request, facts);
  const flag = "--introspection-addr";
  try {
    return serveAt(address, handler, { flag, limits: LIMITS, signal });
  } catch (err) {
    if (!(err instanceof ListenError)) throw err;
    log.warn("Cannot show ENIs to programs on the node; continuing", { err });
    return none;
  }
}

async function answer(
  { method, url }: Request,
  facts: () => Promise<InspectionFacts>,
): Promise<Response> {
  if (method !== "GET" && method !== "HEAD") {
    return new Response("method not allowed\n", { status: 405 });
  }
  const { pathname } = new URL(url);
  const made = Object.hasOwn(ANSWERS, pathname) ? ANSWERS[pathname] : undefined;
  if (made !== undefined) return Response.json(made(await facts()));
  return Response.json(COMMANDS, { status: pathname === "/" ? 200 : 404 });
}
