/**
 * How the launcher, which a container runtime calls as the CNI plugin, takes
 * its call to coild: one request and one answer on a connection, whose other
 * end is `deploy/executable/elf/launcher.c`. Both are on one machine, so numbers
 * are in its order, which on all that Coil runs on is little-endian.
 *
 * | request | answer |
 * |---|---|
 * | `COILCNI1` | `COILCNI1` |
 * | u32: bytes of the variables | u32: exit code, 0 or 1 |
 * | u32: bytes of stdin | u32: bytes of stdout |
 * | variables: `NAME=value` and a NUL for each | stdout |
 * | stdin | |
 *
 * A connection that is closed without an answer leaves the call to the whole
 * executable on the node. Another form of these messages gets another number in
 * their first bytes: launcher and coild are not upgraded at the same moment.
 *
 * @module
 */

/** Of a request and of an answer. */
const HEAD_BYTES = 16;
const MAGIC = new TextEncoder().encode("COILCNI1");

/** The launcher's buffers hold 256 KiB. */
const MAX_BYTES = 256 * 1024;

/** What the socket for launchers is called beside that of coild: `/run/coild.sock.cni`. */
export const LAUNCHER_SOCKET_SUFFIX = ".cni";

/** A call of a container runtime. */
export interface LauncherRequest {
  /** The variables whose names begin with `CNI_`. */
  readonly env: ReadonlyMap<string, string>;
  readonly stdin: Uint8Array;
}

/** What the runtime is to get. */
export interface LauncherAnswer {
  readonly exitCode: 0 | 1;
  readonly stdout: string;
}

/**
 * How many bytes a request has, by its first; undefined until there are enough
 * of them to tell.
 *
 * @throws {SyntaxError} when they are not the beginning of a request
 */
export function requestSize(bytes: Uint8Array): number | undefined {
  const { length } = bytes;
  const known = Math.min(length, MAGIC.length);
  if (MAGIC.subarray(0, known).some((byte, i) => byte !== bytes[i])) {
    throw new SyntaxError("Cannot read a request: it has other first bytes");
  }
  if (length < HEAD_BYTES) return undefined;
  const [env, stdin] = numbersOf(bytes);
  if (env + stdin <= MAX_BYTES) return HEAD_BYTES + env + stdin;
  throw new SyntaxError(`Cannot read a request: ${env + stdin} bytes`);
}

/** Reads a whole request; see {@linkcode requestSize}. stdin is a part of its bytes. */
export function decodeRequest(bytes: Uint8Array): LauncherRequest {
  const [envBytes] = numbersOf(bytes);
  const end = HEAD_BYTES + envBytes;
  const text = new TextDecoder().decode(bytes.subarray(HEAD_BYTES, end));
  const env = new Map<string, string>();
  for (const variable of text.split("\0")) {
    const equals = variable.indexOf("=");
    if (equals <= 0) continue;
    const name = variable.slice(0, equals);
    // As getenv(3): the first of a name counts.
    if (!env.has(name)) env.set(name, variable.slice(equals + 1));
  }
  return { env, stdin: bytes.subarray(end) };
}

/** Encodes an answer; undefined when it is more than a launcher can take. */
export function encodeAnswer(
  { exitCode, stdout }: LauncherAnswer,
): Uint8Array | undefined {
  const text = new TextEncoder().encode(stdout);
  const bytes = new Uint8Array(HEAD_BYTES + text.length);
  if (bytes.length > MAX_BYTES) return undefined;
  bytes.set(MAGIC);
  const view = new DataView(bytes.buffer);
  view.setUint32(8, exitCode, true);
  view.setUint32(12, text.length, true);
  bytes.set(text, HEAD_BYTES);
  return bytes;
}

function numbersOf(bytes: Uint8Array): readonly [number, number] {
  const { buffer, byteOffset, byteLength } = bytes;
  const view = new DataView(buffer, byteOffset, byteLength);
  return [view.getUint32(8, true), view.getUint32(12, true)];
}
