import { codeOf } from "../../../lib/errors/mod.ts";

/** The node cannot be made as asked. The message is for the admin, as it is. */
export class InstallError extends Error {
  override readonly name = "InstallError";
}

/** Another program changed a file while its successor was being made. */
export class ChangedMeanwhileError extends Error {
  override readonly name = "ChangedMeanwhileError";
}

/** What to do about an error of the operating system. */
const ADVICE: Readonly<Record<string, string>> = {
  EROFS: "the file system is mounted read-only; mount it writable",
  ENOSPC:
    "no space left on the file system; free some space; existing files are kept",
  EDQUOT:
    "the quota of the file system is exceeded; free some space; existing files are kept",
  EACCES: "permission denied; run as root, with the host's directory mounted",
  EPERM:
    "the operation is not permitted; run as root, and check for an immutable attribute (lsattr) or a policy of the host",
  EISDIR: "a directory is in its place; remove it",
  ENOTDIR: "a part of its path is a file; use another directory",
  ENOENT: "it does not exist; is the host's directory mounted?",
  ELOOP: "a symbolic link points to itself; remove it",
};

/** Whether a file is being executed, or written: ETXTBSY, which Deno gives no code. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && error.message.includes("(os error 26)");
}

/** An error for the admin; `action` completes "Cannot …". One that is for the admin already stays as it is. */
export function cannot(action: string, cause: unknown): Error {
  const isOurs = cause instanceof InstallError ||
    cause instanceof ChangedMeanwhileError;
  if (isOurs || isAbort(cause)) return cause;
  const advice = ADVICE[codeOf(cause) ?? ""];
  const text = advice === undefined
    ? `Cannot ${action}`
    : `Cannot ${action}: ${advice}`;
  return new InstallError(text, { cause });
}

function isAbort(error: unknown): error is Error {
  return error instanceof Error && error.name === "AbortError";
}

/** Runs `act`; its error gets a message that says what could not be done. `action` completes "Cannot …". */
export async function attempt<T>(
  action: string,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw cannot(action, error);
  }
}

/** Undefined for a file that is not there. */
export async function ifThere<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
