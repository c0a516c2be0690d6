import { CniError, type Command, ErrorCode } from "../cni/mod.ts";
import { type CniErrorDetail, decodeCniError } from "../cnirpc/lean/mod.ts";
import { ConnectError, GrpcError, StatusCode } from "../grpc/mod.ts";

/** What the runtime is told about a call to coild that failed. */
export function toCniError(error: unknown, command: Command): CniError {
  if (error instanceof CniError) return error;
  if (error instanceof ConnectError) return notRunning(error, command);
  if (error instanceof GrpcError) return fromGrpc(error, command);
  const message = error instanceof Error ? error.message : String(error);
  return new CniError(message, { code: ErrorCode.INTERNAL, cause: error });
}

function notRunning(error: ConnectError, command: Command): CniError {
  const { cause } = error;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new CniError(
    "coild is not running on this node or still starting",
    {
      code: unavailableCode(command),
      details:
        `socket "${error.socketPath}": ${reason}; check the coild pod of this node`,
      cause: error,
    },
  );
}

/** STATUS has codes of its own for a plugin that cannot work now. */
function unavailableCode(command: Command): number {
  return command === "STATUS"
    ? ErrorCode.PLUGIN_NOT_AVAILABLE
    : ErrorCode.TRY_AGAIN_LATER;
}

function fromGrpc(error: GrpcError, command: Command): CniError {
  const detail = tryDecode(error.statusDetails);
  if (detail !== undefined) {
    const { code, msg, details } = detail;
    return new CniError(msg, { code, details, cause: error });
  }
  return new CniError(error.message, {
    code: codeOf(error, command),
    details: `rpc error: code = ${error.codeName} desc = ${error.message}`,
    cause: error,
  });
}

function codeOf(error: GrpcError, command: Command): number {
  switch (error.code) {
    // coild ended or hangs: another attempt may find a new one.
    case StatusCode.UNAVAILABLE:
    case StatusCode.DEADLINE_EXCEEDED:
      return unavailableCode(command);
    default:
      return ErrorCode.INTERNAL;
  }
}

/** The error inside the status; undefined when that is not one of ours. */
function tryDecode(
  statusDetails: Uint8Array | undefined,
): CniErrorDetail | undefined {
  try {
    return statusDetails && decodeCniError(statusDetails);
  } catch (error) {
    const isMalformed = error instanceof SyntaxError ||
      error instanceof TypeError;
    if (isMalformed) return undefined;
    throw error;
  }
}
