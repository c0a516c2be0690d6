/**
 * How a call of a container runtime reaches coild: one request and one answer
 * on a connection to the socket beside that for gRPC. The front of
 * the executable (`deploy/executable/elf/front.c`) speaks it, and the whole
 * program (`roles/coil`) where the front had no answer. Both ends are on one machine, so numbers
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
 * The front's buffers hold 256 KiB, and it cannot read a network configuration.
 * If coild closes the connection without an answer, the front starts the whole
 * program. That adds the variable {@linkcode SOCKET_VARIABLE}, may send a larger
 * request, and takes an answer of any size. A changed format gets another number
 * in its first bytes: plugin and coild are not upgraded at the same moment.
 *
 * @module
 */

/** Of a request and of an answer. */
const HEAD_BYTES = 16;
const MAGIC = new TextEncoder().encode("COILCNI1");

/** The size of the front's buffers. */
const FRONT_BYTES = 256 * 1024;
/** The largest request of all: 4 MiB of stdin, which the whole program takes at most, and its variables. */
const MAX_BYTES = 5 * 1024 * 1024;

/** What the socket is called beside that for gRPC: `/run/coild.sock.cni`. */
export const PLUGIN_SOCKET_SUFFIX = ".cni";

/** The variable in which the whole program names the socket of the network configuration. */
export const SOCKET_VARIABLE = "COIL_SOCKET";

/** A call of a container runtime. */
export interface PluginRequest {
  /** The variables whose names begin with `CNI_`, and maybe {@linkcode SOCKET_VARIABLE}. */
  readonly env: ReadonlyMap<string, string>;
  readonly stdin: Uint8Array;
}

/** Exit code and output for the runtime. */
export interface PluginAnswer {
  readonly exitCode: 0 | 1;
  readonly stdout: string;
}

export function encodeRequest({ env, stdin }: PluginRequest): Uint8Array {
  const variables = new TextEncoder().encode(
    [...env].map(([name, value]) => `${name}=${value}\0`).join(""),
  );
  const bytes = new Uint8Array(HEAD_BYTES + variables.length + stdin.length);
  writeHead(bytes, [variables.length, stdin.length]);
  bytes.set(variables, HEAD_BYTES);
  bytes.set(stdin, HEAD_BYTES + variables.length);
  return bytes;
}

/**
 * How many bytes a request has, by its first; undefined until enough of these
 * are there.
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
export function decodeRequest(bytes: Uint8Array): PluginRequest {
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

/** Encodes an answer; undefined when it is more than the caller can take. */
export function encodeAnswer(
  { exitCode, stdout }: PluginAnswer,
  request: Pick<PluginRequest, "env">,
): Uint8Array | undefined {
  const text = new TextEncoder().encode(stdout);
  const bytes = new Uint8Array(HEAD_BYTES + text.length);
  const isLimited = !request.env.has(SOCKET_VARIABLE);
  if (isLimited && bytes.length > FRONT_BYTES) return undefined;
  writeHead(bytes, [exitCode, text.length]);
  bytes.set(text, HEAD_BYTES);
  return bytes;
}

/**
 * Reads a whole answer.
 *
 * @throws {SyntaxError} when the bytes are not one
 */
export function decodeAnswer(bytes: Uint8Array): PluginAnswer {
  const bad = (why: string) =>
    new SyntaxError(`Cannot read the answer: ${why}`);
  if (bytes.length < HEAD_BYTES) throw bad(`it has ${bytes.length} bytes`);
  if (MAGIC.some((byte, i) => byte !== bytes[i])) {
    throw bad("it has other first bytes");
  }
  const [exitCode, length] = numbersOf(bytes);
  if (exitCode !== 0 && exitCode !== 1) throw bad(`exit code ${exitCode}`);
  const text = bytes.subarray(HEAD_BYTES);
  if (text.length !== length) {
    throw bad(`${text.length} bytes of text instead of ${length}`);
  }
  return { exitCode, stdout: new TextDecoder().decode(text) };
}

function writeHead(
  bytes: Uint8Array,
  [first, second]: readonly [number, number],
): void {
  bytes.set(MAGIC);
  const view = new DataView(bytes.buffer);
  view.setUint32(8, first, true);
  view.setUint32(12, second, true);
}

function numbersOf(bytes: Uint8Array): readonly [number, number] {
  const { buffer, byteOffset, byteLength } = bytes;
  const view = new DataView(buffer, byteOffset, byteLength);
  return [view.getUint32(8, true), view.getUint32(12, true)];
}
