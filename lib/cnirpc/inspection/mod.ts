/**
 * What coild reports of its node's addresses at a socket of its own, and how it
 * is asked: HTTP, for curl as well as for `coil ipam check --local`.
 *
 * @module
 */
import { abortable, writeAll } from "../../async/mod.ts";

/** What the socket is called beside that for gRPC: `/run/coild.sock.admin`. */
export const ADMIN_SOCKET_SUFFIX = ".admin";

/** The one path there is. */
export const ADDRESSES_PATH = "/v1/addresses";

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
  readonly addresses: readonly string[];
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

/** Asks the coild whose socket for gRPC is at the path. @throws {CoildSilentError} */
export async function askAddresses(
  socketPath: string,
  { signal }: { readonly signal: AbortSignal },
): Promise<NodeAddresses> {
  const path = socketPath + ADMIN_SOCKET_SUFFIX;
  try {
    using connection = await Deno.connect({ transport: "unix", path });
    return parseAnswer(await abortable(exchange(connection), signal));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CoildSilentError(`Cannot ask coild at "${path}": ${why}`, {
      cause,
    });
  }
}

const REQUEST =
  `GET ${ADDRESSES_PATH} HTTP/1.1\r\nhost: coild\r\nconnection: close\r\n\r\n`;

async function exchange(connection: Deno.Conn): Promise<string> {
  await writeAll(connection, new TextEncoder().encode(REQUEST));
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of connection.readable) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_ANSWER_CHARS) {
      throw new RangeError("the answer is too long");
    }
  }
  return text;
}

/** @throws {SyntaxError} when it is no answer with addresses, whole */
function parseAnswer(text: string): NodeAddresses {
  if (text === "") {
    throw new SyntaxError("it closed the connection; too many ask at once");
  }
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  if (!head.startsWith("HTTP/1.1 200 ")) {
    const [status = ""] = head.split("\r\n");
    throw new SyntaxError(`it answered "${status}": ${body.trim()}`);
  }
  const answer: unknown = JSON.parse(body);
  const { node, kernel, table } = (answer ?? {}) as Partial<NodeAddresses>;
  if (
    typeof node === "string" && Array.isArray(kernel) && Array.isArray(table)
  ) {
    return answer as NodeAddresses;
  }
  throw new SyntaxError("its answer has no addresses");
}
