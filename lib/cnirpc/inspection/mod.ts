/**
 * What coild reports of its node's addresses at a socket of its own, how it is
 * asked, and how it is asked to free one that has leaked: HTTP, for curl as
 * well as for `coil ipam check --local`. Daemons are asked for their metrics
 * likewise.
 *
 * @module
 */
import { abortable, writeAll } from "../../async/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import type { Address } from "../../inet/mod.ts";

/** What the socket is called beside that for gRPC: `/run/coild.sock.admin`. */
export const ADMIN_SOCKET_SUFFIX = ".admin";

/** GET: what is known of the node's addresses. */
export const ADDRESSES_PATH = "/v1/addresses";

/** GET: the calls of CNI that are under way, as a list of {@linkcode CallEntry}. */
export const CALLS_PATH = "/v1/calls";

/** GET, with a parameter `address`: who had it, as a list of {@linkcode FormerHolder}. */
export const FORMER_PATH = "/v1/former";

/** POST: free addresses that have leaked, if coild can prove it. */
export const RELEASE_PATH = "/v1/release";

/** More than any node has to say. */
const MAX_ANSWER_CHARS = 64 * 1024 * 1024;

/** An interface of a pod, by the node's links and routes. */
export interface KernelEntry {
  readonly containerId: string;
  readonly ifname: string;
  /** The node's end of it; a husk is cut off and waits for its deletion. */
  readonly state: "up" | "down" | "husk";
  readonly addresses: readonly string[];
}

/** A call of CNI that is under way. */
export interface CallEntry {
  /** `Add`, `Del`, `Check`, `Gc` or `Status`. */
  readonly method: string;
  /** As containerd's log and the kubelet's have it, and `grpc.request.container_id` of coild's. */
  readonly containerId: string;
  readonly ifname: string;
  /** Empty where the runtime does not say. */
  readonly namespace: string;
  readonly pod: string;
  /** Since the call came. */
  readonly seconds: number;
  /** As in the metric `coil_coild_add_phase_seconds`; empty between phases, and for other calls than ADD. */
  readonly phase: string;
  /** Since the phase began. */
  readonly phaseSeconds: number;
}

/** An interface that no longer has its addresses. */
export interface FormerHolder {
  readonly addresses: readonly string[];
  readonly containerId: string;
  readonly ifname: string;
  /** Absent where the address came free without a DEL that named the pod. */
  readonly namespace?: string | undefined;
  readonly pod?: string | undefined;
  /** RFC 3339 time at which the address came free. */
  readonly until: string;
}

/** Addresses that coild keeps for an interface. */
export interface TableEntry {
  readonly containerId: string;
  readonly ifname: string;
  readonly pool: string;
  readonly block?: string;
  readonly state: "used" | "releasing" | "quarantined";
  /** How long it has been so; after a restart of coild it starts again. */
  readonly ageSeconds: number;
  /** Whether an ADD or DEL of it is under way. */
  readonly isBusy: boolean;
  /** Number of this period of use; another one has another. */
  readonly generation: number;
  readonly addresses: readonly string[];
}

/** An entry of the table, as it was seen. */
export type SeenEntry = Pick<
  TableEntry,
  "containerId" | "ifname" | "generation"
>;

/** Which entries are to be released. */
export interface ReleaseRequest {
  readonly entries: readonly SeenEntry[];
  /** Only say what would be done. */
  readonly dryRun: boolean;
}

/** Result of the release of one entry, or of its dry run. */
export interface ReleaseResult extends SeenEntry {
  readonly addresses: readonly string[];
  /** `gone`: coild no longer has the entry that was seen. */
  readonly outcome: "freed" | "kept" | "gone";
  /** Why it was kept; empty otherwise. */
  readonly why: string;
}

/** The result of each entry. */
export interface ReleaseAnswer {
  readonly results: readonly ReleaseResult[];
}

/** A pod of the node that has a network of its own, by the API server. */
export interface PodEntry {
  readonly namespace: string;
  readonly name: string;
  readonly isEnding: boolean;
  readonly addresses: readonly string[];
}

/** All that is known of a node's addresses at about one moment. */
export interface NodeAddresses {
  readonly node: string;
  readonly kernel: readonly KernelEntry[];
  readonly table: readonly TableEntry[];
  /** Absent until the API server has listed them. */
  readonly pods?: readonly PodEntry[];
  /** The node's blocks: networks by name. */
  readonly blocks: Readonly<Record<string, readonly string[]>>;
}

/** coild did not answer, or not with addresses. */
export class CoildSilentError extends Error {
  override readonly name = "CoildSilentError";
}

/** Where coild is, and how long it may take. */
interface Ask {
  readonly signal: AbortSignal;
}

/** Asks the coild whose socket for gRPC is at the path. @throws {CoildSilentError} */
export async function askAddresses(
  socketPath: string,
  ask: Ask,
): Promise<NodeAddresses> {
  const head = `GET ${ADDRESSES_PATH}`;
  return await exchange(
    { socketPath, head, body: "", parse: toAddresses },
    ask,
  );
}

/** Asks that coild for the calls under way. @throws {CoildSilentError} */
export async function askCalls(
  socketPath: string,
  ask: Ask,
): Promise<readonly CallEntry[]> {
  const head = `GET ${CALLS_PATH}`;
  return await exchange({ socketPath, head, body: "", parse: toCalls }, ask);
}

/** Asks that coild who had an address within a day, the last one first. @throws {CoildSilentError} */
export async function askFormer(
  socketPath: string,
  { address, signal }: Ask & { readonly address: Address },
): Promise<readonly FormerHolder[]> {
  const head = `GET ${FORMER_PATH}?address=${address}`;
  return await exchange({ socketPath, head, body: "", parse: toFormer }, {
    signal,
  });
}

/** Asks that coild to release entries, or only to say which it would. @throws {CoildSilentError} */
export async function askRelease(
  socketPath: string,
  { signal, ...request }: ReleaseRequest & Ask,
): Promise<ReleaseAnswer> {
  const head = `POST ${RELEASE_PATH}`;
  const body = JSON.stringify(request);
  return await exchange({ socketPath, head, body, parse: toRelease }, {
    signal,
  });
}

interface Exchange<T> {
  readonly socketPath: string;
  /** Method and path. */
  readonly head: string;
  readonly body: string;
  /** @throws {SyntaxError} when it is not what was asked for */
  readonly parse: (answer: unknown) => T;
}

async function exchange<T>(
  { socketPath, head, body, parse }: Exchange<T>,
  { signal }: Ask,
): Promise<T> {
  const path = socketPath + ADMIN_SOCKET_SUFFIX;
  const bytes = new TextEncoder().encode(body);
  const request =
    `${head} HTTP/1.1\r\nhost: coild\r\ncontent-length: ${bytes.length}\r\nconnection: close\r\n\r\n${body}`;
  try {
    using connection = await Deno.connect({ transport: "unix", path });
    const answer = await abortable(send(connection, request), signal);
    return parse(JSON.parse(answer));
  } catch (cause) {
    throw silent(`Cannot ask coild at "${path}"`, cause);
  }
}

/** Asks a daemon of this network namespace for its metrics, in Prometheus' text format. @throws {CoildSilentError} */
export async function askMetrics(
  port: number,
  { signal }: Ask,
): Promise<string> {
  const request =
    "GET /metrics HTTP/1.1\r\nhost: coild\r\nconnection: close\r\n\r\n";
  try {
    using connection = await Deno.connect({
      hostname: "127.0.0.1",
      port,
      signal,
    });
    return await abortable(send(connection, request), signal);
  } catch (cause) {
    throw silent(`Cannot ask for metrics at port ${port}`, cause);
  }
}

function silent(what: string, cause: unknown): CoildSilentError {
  return new CoildSilentError(`${what}: ${messageOf(cause)}`, { cause });
}

/** The body of what comes back. @throws {SyntaxError} when it is not a whole answer */
async function send(connection: Deno.Conn, request: string): Promise<string> {
  await writeAll(connection, new TextEncoder().encode(request));
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of connection.readable) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_ANSWER_CHARS) {
      throw new RangeError("the answer is too long");
    }
  }
  return bodyOf(text);
}

function bodyOf(text: string): string {
  if (text === "") {
    throw new SyntaxError("it closed the connection; too many ask at once");
  }
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  if (head.startsWith("HTTP/1.1 200 ")) return body;
  const [status = ""] = head.split("\r\n");
  throw new SyntaxError(`it answered "${status}": ${body.trim()}`);
}

/** @throws {SyntaxError} when it is not an answer with addresses, whole */
function toAddresses(answer: unknown): NodeAddresses {
  const { node, kernel, table } = (answer ?? {}) as Partial<NodeAddresses>;
  if (
    typeof node === "string" && Array.isArray(kernel) && Array.isArray(table)
  ) {
    return answer as NodeAddresses;
  }
  throw new SyntaxError("its answer has no addresses");
}

function toCalls(answer: unknown): readonly CallEntry[] {
  if (Array.isArray(answer)) return answer;
  throw new SyntaxError("its answer is not a list of calls");
}

function toFormer(answer: unknown): readonly FormerHolder[] {
  if (Array.isArray(answer)) return answer;
  throw new SyntaxError("its answer is not a list of former holders");
}

function toRelease(answer: unknown): ReleaseAnswer {
  const { results } = (answer ?? {}) as Partial<ReleaseAnswer>;
  if (Array.isArray(results)) return answer as ReleaseAnswer;
  throw new SyntaxError("its answer has no results");
}

/** Reads a request to release. @throws {SyntaxError} when it is none */
export function parseReleaseRequest(text: string): ReleaseRequest {
  const request: unknown = JSON.parse(text);
  const { entries, dryRun } = (request ?? {}) as Partial<ReleaseRequest>;
  if (typeof dryRun !== "boolean" || !Array.isArray(entries)) {
    throw new SyntaxError(
      "Cannot read the request: entries or dryRun is missing",
    );
  }
  return { dryRun, entries: entries.map(toEntry) };
}

function toEntry(entry: unknown): SeenEntry {
  const { containerId, ifname, generation } = (entry ?? {}) as Partial<
    SeenEntry
  >;
  if (
    typeof containerId === "string" && typeof ifname === "string" &&
    typeof generation === "number"
  ) return { containerId, ifname, generation };
  throw new SyntaxError(
    "Cannot read the request: an entry needs containerId, ifname and generation",
  );
}
