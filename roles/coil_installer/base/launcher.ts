import { InstallError } from "./errors.ts";

/**
 * The launcher as base64, which the build puts here: deploy/executable/README.md.
 * Nothing in a build without a C compiler; when run from source it is no base64.
 */
const EMBEDDED = "@launcher@";

/** In the launcher the path of coild's socket stands behind these bytes, filled up with NULs: deploy/executable/elf/launcher.c. */
const MARKER: Uint8Array = new TextEncoder().encode("COIL_SOCKET_PATH");
const FIELD_BYTES = 112;

/** With what the launcher appends it has to fit into `sun_path` of unix(7), 108 bytes. */
const MAX_PATH_BYTES = 100;

/** No launcher is larger, and no whole executable so small. */
const MAX_LAUNCHER_BYTES = 1 << 20;

/** The launcher of this build, without a socket's path; undefined when the build has none. */
export function embeddedLauncher(): Uint8Array | undefined {
  return decodeLauncher(EMBEDDED);
}

/** The bytes that a build was given; undefined when that is no base64. */
export function decodeLauncher(text: string): Uint8Array | undefined {
  // Not compared with the text above: the build would replace that, too.
  return /^[A-Za-z0-9+/]+=*$/.test(text)
    ? Uint8Array.fromBase64(text)
    : undefined;
}

/**
 * A launcher that calls coild at this socket.
 *
 * @throws {InstallError} when it could not, or when the template is no launcher
 */
export function launcherFor(
  template: Uint8Array,
  socketPath: string,
): Uint8Array {
  const path = new TextEncoder().encode(socketPath);
  const reason = reasonAgainst(socketPath, path.length);
  if (reason !== undefined) {
    throw new InstallError(
      `Cannot use the socket "${socketPath}" of the network configuration: ${reason}`,
    );
  }
  const marker = indexOf(template, MARKER);
  const field = marker + MARKER.length;
  const isEmpty = template.subarray(field, field + FIELD_BYTES)
    .every((byte) => byte === 0);
  if (marker < 0 || !isEmpty || template.length < field + FIELD_BYTES) {
    throw new InstallError(
      "Cannot make the launcher: that of this build has no place for the socket's path; build again (deno task build)",
    );
  }
  const launcher = template.slice();
  launcher.set(path, field);
  return launcher;
}

function reasonAgainst(text: string, sizeBytes: number): string | undefined {
  if (!text.startsWith("/")) return "it needs an absolute path";
  if (text.includes("\0")) return "no path has NUL in it";
  return sizeBytes > MAX_PATH_BYTES
    ? `it has ${sizeBytes} bytes, and ${MAX_PATH_BYTES} are the most; give a shorter one, to coild as well (--socket)`
    : undefined;
}

/** Whether a file of this size may be a launcher at all. */
export function hasLauncherSize(sizeBytes: number): boolean {
  return sizeBytes <= MAX_LAUNCHER_BYTES;
}

/** Whether these are the contents of a launcher, of this version or another. */
export function isLauncher(contents: Uint8Array): boolean {
  return indexOf(contents, MARKER) >= 0;
}

/** Where the part begins; -1 when it is not there. */
function indexOf(whole: Uint8Array, part: Uint8Array): number {
  const [first = 0] = part;
  for (let at = whole.indexOf(first); at >= 0;) {
    const isHere = part.every((byte, i) => whole[at + i] === byte);
    if (isHere) return at;
    at = whole.indexOf(first, at + 1);
  }
  return -1;
}
