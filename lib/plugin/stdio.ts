import { CniError, ErrorCode } from "../cni/mod.ts";
import { messageOf } from "../errors/mod.ts";

/** More than any network configuration has, and what the executable's front takes. */
const MAX_STDIN_BYTES = 4 << 20;

/**
 * All of stdin. Synchronous: there is nothing else to do in the meantime.
 *
 * @throws {CniError} when it does not end
 */
export function readStdin(): Uint8Array {
  let buffer = new Uint8Array(65536);
  let length = 0;
  while (true) {
    const count = Deno.stdin.readSync(buffer.subarray(length));
    if (count === null) return buffer.subarray(0, length);
    length += count;
    if (length > MAX_STDIN_BYTES) {
      throw new CniError("the network configuration is too large", {
        code: ErrorCode.INVALID_NETWORK_CONFIG,
        details: "stdin has more than 4 MiB",
      });
    }
    if (length === buffer.length) {
      const larger = new Uint8Array(2 * length);
      larger.set(buffer);
      buffer = larger;
    }
  }
}

/**
 * A variable of the environment.
 *
 * @throws {CniError} when it is not text
 */
export function readVariable(name: string): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (cause) {
    throw new CniError(`${name} is not valid UTF-8`, {
      code: ErrorCode.INVALID_ENVIRONMENT_VARIABLES,
      cause,
    });
  }
}

/** Writes all of `text` to stdout. Whether the runtime has got all of it. */
export function tryWriteStdout(
  text: string,
  { program }: { readonly program: string },
): boolean {
  try {
    writeStdout(text);
    return true;
  } catch (error) {
    const line = `${program}: cannot write the answer to stdout: ${
      messageOf(error)
    }\n`;
    Deno.stderr.writeSync(new TextEncoder().encode(line));
    return false;
  }
}

function writeStdout(text: string): void {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}
