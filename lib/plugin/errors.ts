import { CniError, type Command, ErrorCode } from "../cni/mod.ts";
import { messageOf } from "../errors/mod.ts";

/** coild did not answer: no process listens at its socket, or no answer came. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
  /** For `details` of the CNI error: the socket, and what happened there. */
  readonly details: string;

  constructor(
    message: string,
    options: { readonly details: string; readonly cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.details = options.details;
  }
}

/** The error that the runtime gets for a call that failed. */
export function toCniError(error: unknown, command: Command): CniError {
  if (error instanceof CniError) return error;
  if (error instanceof NoAnswerError) {
    const { message, details } = error;
    const code = unavailableCode(command);
    return new CniError(message, { code, details, cause: error });
  }
  const message = messageOf(error);
  return new CniError(message, { code: ErrorCode.INTERNAL, cause: error });
}

/** The code for a coild that cannot answer now: STATUS has one of its own. */
function unavailableCode(command: Command): number {
  return command === "STATUS"
    ? ErrorCode.PLUGIN_NOT_AVAILABLE
    : ErrorCode.TRY_AGAIN_LATER;
}
