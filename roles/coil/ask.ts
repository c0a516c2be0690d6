import {
  decodeAnswer,
  encodeRequest,
  PLUGIN_SOCKET_SUFFIX,
  type PluginAnswer,
  SOCKET_VARIABLE,
} from "../../lib/cnirpc/plugin/mod.ts";
import { messageOf } from "../../lib/errors/mod.ts";
import { NoAnswerError } from "../../lib/plugin/mod.ts";

/** coild gives up after 60 s and says so; without that it hangs. */
export const PATIENCE_MS = 70_000;
const BACKLOG_PAUSE_MS = 10;
/** More than coild answers. */
const MAX_ANSWER_BYTES = 16 << 20;

export interface Question {
  /** Of the network configuration. */
  readonly socketPath: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
  /** How long to wait. Default 70 s. */
  readonly patienceMs?: number;
}

/**
 * Sends a call to coild, as the front does. Undefined when no process
 * listens at the plugin's socket and one does at that for gRPC: it is
 * upstream's coild, or an early one of ours.
 *
 * @throws {NoAnswerError} when no process listens at either, or what comes is not an answer
 */
export async function askCoild(
  question: Question,
): Promise<PluginAnswer | undefined> {
  const { socketPath, patienceMs = PATIENCE_MS } = question;
  const connecting = connect(socketPath + PLUGIN_SOCKET_SUFFIX, patienceMs);
  using connection = await connecting.catch(async (cause) => {
    if (await isServed(socketPath)) return undefined;
    throw new NoAnswerError(
      "coild is not running on this node or still starting",
      { details: detailsOf(socketPath, cause), cause },
    );
  });
  if (connection === undefined) return undefined;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    connection.close();
  }, patienceMs);
  try {
    return decodeAnswer(await exchange(connection, requestOf(question)));
  } catch (cause) {
    if (isLate) {
      const message = `No answer within ${patienceMs} ms`;
      throw new NoAnswerError(message, {
        details: detailsOf(socketPath, "coild hangs"),
        cause,
      });
    }
    const message = "coild did not answer";
    throw new NoAnswerError(message, {
      details: detailsOf(socketPath, cause),
      cause,
    });
  } finally {
    clearTimeout(timer);
  }
}

/** Connects to a socket, whose backlog may be full for so long. */
export async function connect(
  path: string,
  patienceMs: number,
): Promise<Deno.UnixConn> {
  const endMs = performance.now() + patienceMs;
  for (;;) {
    try {
      return await Deno.connect({ transport: "unix", path });
    } catch (error) {
      // A full backlog is EAGAIN on a UNIX socket: unix(7).
      const isFull = error instanceof Deno.errors.WouldBlock;
      if (!isFull || performance.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, BACKLOG_PAUSE_MS));
    }
  }
}

/** Whether a process listens at the socket for gRPC, be its backlog full. */
async function isServed(path: string): Promise<boolean> {
  try {
    using _connection = await Deno.connect({ transport: "unix", path });
    return true;
  } catch (error) {
    return error instanceof Deno.errors.WouldBlock;
  }
}

function requestOf({ env, socketPath, stdin }: Question): Uint8Array {
  const variables = Object.entries(env)
    .filter(([name]) => name.startsWith("CNI_"));
  return encodeRequest({
    env: new Map([...variables, [SOCKET_VARIABLE, socketPath]]),
    stdin,
  });
}

async function exchange(
  connection: Deno.UnixConn,
  request: Uint8Array,
): Promise<Uint8Array> {
  // coild may answer before it has read all, and close.
  await writeAll(connection, request).catch(() => {});
  let buffer = new Uint8Array(65536);
  for (let length = 0;;) {
    const count = await connection.read(buffer.subarray(length));
    if (count === null) return buffer.subarray(0, length);
    length += count;
    if (length > MAX_ANSWER_BYTES) {
      throw new SyntaxError("Cannot read the answer: more than 16 MiB");
    }
    if (length < buffer.length) continue;
    const larger = new Uint8Array(2 * length);
    larger.set(buffer);
    buffer = larger;
  }
}

/** As `writeAll()` of lib/async, which the plugin does not load: it starts for every pod. */
async function writeAll(
  connection: Deno.UnixConn,
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await connection.write(rest));
  }
}

/** Details of a {@linkcode NoAnswerError}: the socket, what happened there and what to do. */
export function detailsOf(socketPath: string, cause: unknown): string {
  return `socket "${socketPath}": ${
    messageOf(cause)
  }; check the coild pod of this node`;
}
