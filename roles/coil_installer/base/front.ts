import { InstallError } from "./errors.ts";
import { entrySegmentOf, readAt, type Segment } from "./machine.ts";

/**
 * An executable's front (deploy/executable/elf/front.c) begins with these
 * bytes; behind its numbers there is room for the path of coild's socket.
 */
const MAGIC = new TextEncoder().encode("COILFRT1");
const SOCKET_AT = 80;

/** How long the room for the socket's path is. */
export const SOCKET_BYTES = 112;

/** With what the front appends it has to fit into `sun_path` of unix(7), 108 bytes. */
const MAX_PATH_BYTES = 100;

/** Bytes to replace in a copy of a file. */
export interface Patch {
  readonly at: number;
  readonly bytes: Uint8Array;
}

/**
 * What the front's header has for the socket at a path.
 *
 * @throws {InstallError} when the front could not call it
 */
export function socketField(socketPath: string): Uint8Array {
  const path = new TextEncoder().encode(socketPath);
  const reason = reasonAgainst(socketPath, path.length);
  if (reason !== undefined) {
    throw new InstallError(
      `Cannot use the socket "${socketPath}" of the network configuration: ${reason}`,
    );
  }
  const field = new Uint8Array(SOCKET_BYTES);
  field.set(path);
  return field;
}

function reasonAgainst(text: string, sizeBytes: number): string | undefined {
  if (!text.startsWith("/")) return "it must be an absolute path";
  if (text.includes("\0")) return "a path cannot contain NUL";
  return sizeBytes > MAX_PATH_BYTES
    ? `it has ${sizeBytes} bytes, at most ${MAX_PATH_BYTES} are allowed; use a shorter path, also for coild (--socket)`
    : undefined;
}

/**
 * Where an executable's front has the socket's path; undefined for an executable
 * without a front, which starts a JavaScript runtime for each call.
 */
export async function findSocketField(
  file: Deno.FsFile,
): Promise<number | undefined> {
  const segment = await entrySegmentOf(file);
  if (segment === undefined || !await isFront(file, segment)) return undefined;
  return segment.offset + SOCKET_AT;
}

async function isFront(
  file: Deno.FsFile,
  { offset, sizeBytes }: Segment,
): Promise<boolean> {
  if (sizeBytes < SOCKET_AT + SOCKET_BYTES) return false;
  const start = await readAt(file, { offset, sizeBytes: MAGIC.length });
  return start.length === MAGIC.length &&
    MAGIC.every((byte, i) => start[i] === byte);
}
