import { tryLockFile } from "../../../lib/linux/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("setup");

/** The socket belongs to another daemon that runs. */
export class SocketTakenError extends Error {
  override readonly name = "SocketTakenError";

  constructor(socketPath: string, holder: string | undefined) {
    const who = holder === undefined ? "another process" : `process ${holder}`;
    super(
      `Cannot serve at socket "${socketPath}": ${who} already does; stop it first`,
    );
  }
}

/** The file that is locked for a socket. */
export function lockFileOf(socketPath: string): string {
  return `${socketPath}.lock`;
}

/**
 * Makes sure that one daemon serves a socket at a time. The kernel drops the
 * lock with the process, so a killed daemon leaves nothing to clean up.
 *
 * @throws {SocketTakenError} naming the other one.
 */
export function lockSocket(socketPath: string): Disposable {
  const path = lockFileOf(socketPath);
  const lock = tryLockFile(path);
  if (lock === undefined) throw new SocketTakenError(socketPath, holder(path));
  noteHolder(path);
  return lock;
}

/** Only for the message to the next one, so a full disk does not keep the daemon from starting. */
function noteHolder(path: string): void {
  try {
    Deno.writeTextFileSync(path, `${Deno.pid}\n`);
  } catch (err) {
    log.warn("Cannot write the process ID to the lock file; continuing", {
      path,
      err,
    });
  }
}

function holder(path: string): string | undefined {
  const text = Deno.readTextFileSync(path).trim();
  return /^[0-9]+$/.test(text) ? text : undefined;
}
