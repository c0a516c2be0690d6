import { abortable, withTimeout } from "../async/mod.ts";
import { bearerTokenOf, getLogger } from "../telemetry/mod.ts";
import {
  ANNOUNCE_PATH,
  type Announcement,
  formatRefusal,
  LOSSES_PATH,
  type LossReport,
  MAX_TEXT_CHARS,
  parseAnnouncement,
  parseLossReport,
  parseSourceReport,
  type SourceReport,
  SOURCES_PATH,
} from "./wire.ts";

const log = getLogger("announce");

/** The sender no longer waits by then. */
const ANSWER_MS = 5_000;

/** Who sent a message, as the API server says. */
export interface Caller {
  /** Name of the user, e.g. `system:serviceaccount:kube-system:coild`. */
  readonly username: string;
  /** The node that the caller's token is bound to. */
  readonly nodeName?: string;
}

/** The answer: 204 once the gateway serves the client or has taken the report, else why it does not. */
export type Verdict =
  | { readonly status: 204 }
  | { readonly status: 403 | 404 | 503; readonly reason: string };

/** How {@linkcode announceHandler} decides. */
export interface AnnounceHandlerOptions {
  /** Returns the owner of the token that the peer with this address has sent; undefined when the token is not valid. An error that it throws is answered with 503. */
  readonly authenticate: (
    token: string,
    peer: string,
  ) => Promise<Caller | undefined>;
  /** Decides on an announcement, and lets the client in. What it throws is answered with 503. */
  readonly admit: (
    announcement: Announcement,
    options: { readonly caller: Caller; readonly signal: AbortSignal },
  ) => Promise<Verdict>;
  /** Decides on a report of lost gateways, and takes it. */
  readonly takeLosses: (report: LossReport, caller: Caller) => Verdict;
  /** Decides on a report of translated sources, and takes it. */
  readonly takeSources: (report: SourceReport, caller: Caller) => Verdict;
  /** Called with the status of every answer. */
  readonly onAnswer?: (status: number) => void;
}

/**
 * Returns the server's half, for an HTTP server: 204 when the client is served
 * or the report was taken, else JSON `{"error": reason}` with 400 for a message
 * that cannot be read, 401 for a bad token, 403 when it is not allowed, 404 when
 * the pod is not known, 503 when the gateway cannot do it now.
 *
 * The token is checked before the body is read.
 */
export function announceHandler(
  options: AnnounceHandlerOptions,
): (request: Request, peer: string) => Promise<Response> {
  return async (request, peer) => {
    const response = await answer(request, { ...options, peer });
    options.onAnswer?.(response.status);
    return response;
  };
}

async function answer(
  request: Request,
  options: AnnounceHandlerOptions & { readonly peer: string },
): Promise<Response> {
  const { pathname } = new URL(request.url);
  const parser = PARSERS[pathname];
  if (parser === undefined) return refuse(404, "not found");
  if (request.method !== "POST") return refuse(405, "only POST is supported");
  const token = bearerTokenOf(request);
  if (token === undefined) return refuse(401, "a bearer token is needed");
  try {
    return await withTimeout(
      ANSWER_MS,
      (signal) => decide(request, { ...options, parser, token, signal }),
    );
  } catch (err) {
    // The caller says so in its log; here any peer could fill the log with it.
    log.debug("Cannot decide on an announcement", { err });
    return refuse(503, "the gateway cannot check the announcement now");
  }
}

async function decide(
  request: Request,
  { authenticate, parser, peer, token, signal, ...takers }:
    & AnnounceHandlerOptions
    & {
      readonly peer: string;
      readonly parser: Parser;
      readonly token: string;
      readonly signal: AbortSignal;
    },
): Promise<Response> {
  const caller = await authenticate(token, peer);
  if (caller === undefined) return refuse(401, "the token is not valid here");
  // A body that never ends must not hold the answer.
  const text = await abortable(readText(request, MAX_TEXT_CHARS), signal);
  const message = tryParse(text ?? "", parser);
  if (message instanceof SyntaxError) return refuse(400, message.message);
  const verdict = await take(message, { ...takers, caller, signal });
  return verdict.status === 204
    ? new Response(null, { status: 204 })
    : refuse(verdict.status, verdict.reason);
}

type Message = Announcement | LossReport | SourceReport;
type Parser = (text: string) => Message;

/** By the path that the message is sent to. */
const PARSERS: Readonly<Record<string, Parser>> = {
  [ANNOUNCE_PATH]: parseAnnouncement,
  [LOSSES_PATH]: parseLossReport,
  [SOURCES_PATH]: parseSourceReport,
};

async function take(
  message: Message,
  { admit, takeLosses, takeSources, caller, signal }:
    & Pick<AnnounceHandlerOptions, "admit" | "takeLosses" | "takeSources">
    & { readonly caller: Caller; readonly signal: AbortSignal },
): Promise<Verdict> {
  if ("losses" in message) return takeLosses(message, caller);
  if ("translated" in message) return takeSources(message, caller);
  return await admit(message, { caller, signal });
}

function tryParse(text: string, parser: Parser): Message | SyntaxError {
  try {
    return parser(text);
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
}

/** Undefined when the body is longer than that; the rest of it is not read. */
async function readText(
  request: Request,
  maxBytes: number,
): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > maxBytes) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function refuse(status: number, reason: string): Response {
  return new Response(formatRefusal(reason), {
    status,
    headers: { "content-type": "application/json" },
  });
}
