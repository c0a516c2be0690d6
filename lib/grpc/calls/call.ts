import { messageOf } from "../../errors/mod.ts";
import type { GrpcCall } from "../base/service.ts";
import { GrpcError, StatusCode } from "../base/status.ts";

/** A unary method with what answers it. */
export interface BoundMethod {
  /** Its name in its service: `Add`. */
  readonly name: string;
  /** Other errors than GrpcError become UNKNOWN. */
  readonly answer: (call: GrpcCall) => Promise<Uint8Array>;
}

/** How a call ended; never a rejected promise. */
export type CallOutcome =
  | { readonly response: Uint8Array }
  | { readonly error: GrpcError };

export async function answerCall(
  method: BoundMethod,
  call: GrpcCall,
): Promise<CallOutcome> {
  try {
    const response = await method.answer(call);
    call.signal.throwIfAborted();
    return { response };
  } catch (thrown) {
    return { error: toGrpcError(thrown) };
  }
}

/**
 * Errors of the handler keep their code; those that say nothing about gRPC are
 * UNKNOWN, as in grpc-go.
 */
function toGrpcError(thrown: unknown): GrpcError {
  if (thrown instanceof GrpcError) return thrown;
  const message = messageOf(thrown);
  return new GrpcError(message, { code: StatusCode.UNKNOWN, cause: thrown });
}
