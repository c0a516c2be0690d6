import { getLogger, withLogContext } from "../../telemetry/mod.ts";
import { codeName, GrpcError, StatusCode } from "../status.ts";
import type { BoundMethod, CallContext, RequestFields } from "./method.ts";
import type { CallMetrics } from "./metrics.ts";

const log = getLogger("grpc");

/** A request that has arrived. */
export interface IncomingCall {
  readonly request: Uint8Array;
  /** Aborted, with a GrpcError, when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** How long the caller will wait from now on; undefined is for ever. */
  readonly remainingMs: number | undefined;
}

/** How a call ended; never a rejected promise. */
export type Outcome =
  | { readonly response: Uint8Array }
  | { readonly error: GrpcError };

/**
 * Answers one call: decodes, runs the handler with the request's fields on all
 * its log records, counts, and writes the record "finished call".
 */
export async function answerCall(
  method: BoundMethod,
  call: IncomingCall,
  metrics: CallMetrics | undefined,
): Promise<Outcome> {
  const started = performance.now();
  const context = contextOf(method, call);
  metrics?.start(method);
  let fields: RequestFields = {};
  let outcome: Outcome;
  let error: GrpcError | undefined;
  try {
    const prepared = method.prepare(call.request);
    fields = prepared.fields;
    const logFields = { ...callFields(context), ...fields };
    const response = await withLogContext(
      logFields,
      () => prepared.run(context),
    );
    context.signal.throwIfAborted();
    outcome = { response };
  } catch (thrown) {
    error = toGrpcError(thrown);
    outcome = { error };
  }
  const elapsedMs = performance.now() - started;
  const name = codeName(error?.code ?? StatusCode.OK);
  metrics?.finish(method, { codeName: name, seconds: elapsedMs / 1000 });
  logFinished({ context, fields, elapsedMs, error, name });
  return outcome;
}

function contextOf(
  method: BoundMethod,
  { signal, remainingMs }: IncomingCall,
): CallContext {
  const startTime = new Date();
  const deadline = remainingMs === undefined
    ? undefined
    : new Date(startTime.getTime() + remainingMs);
  return {
    signal,
    deadline,
    peer: "@",
    startTime,
    service: method.service.typeName,
    method: method.name,
  };
}

/**
 * Errors of the handler keep their code; those that say nothing about gRPC are
 * UNKNOWN, as in grpc-go.
 */
function toGrpcError(thrown: unknown): GrpcError {
  if (thrown instanceof GrpcError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new GrpcError(message, { code: StatusCode.UNKNOWN, cause: thrown });
}

/** Names of go-grpc-middleware's logging interceptor. */
function callFields(context: CallContext): Record<string, string> {
  const { deadline } = context;
  return {
    "protocol": "grpc",
    "grpc.component": "server",
    "grpc.service": context.service,
    "grpc.method": context.method,
    "grpc.method_type": "unary",
    "peer.address": context.peer,
    "grpc.start_time": context.startTime.toISOString(),
    ...(deadline && { "grpc.request.deadline": deadline.toISOString() }),
  };
}

const INFO: ReadonlySet<number> = new Set([
  StatusCode.OK,
  StatusCode.NOT_FOUND,
  StatusCode.CANCELLED,
  StatusCode.ALREADY_EXISTS,
  StatusCode.INVALID_ARGUMENT,
  StatusCode.UNAUTHENTICATED,
]);

const WARN: ReadonlySet<number> = new Set([
  StatusCode.DEADLINE_EXCEEDED,
  StatusCode.PERMISSION_DENIED,
  StatusCode.RESOURCE_EXHAUSTED,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.ABORTED,
  StatusCode.OUT_OF_RANGE,
  StatusCode.UNAVAILABLE,
]);

function logFinished(call: {
  readonly context: CallContext;
  readonly fields: RequestFields;
  readonly elapsedMs: number;
  readonly error: GrpcError | undefined;
  readonly name: string;
}): void {
  const { context, fields, elapsedMs, error, name } = call;
  const record = {
    ...callFields(context),
    ...fields,
    "grpc.code": name,
    ...(error && { "grpc.error": error.message, err: error }),
    "grpc.time_ms": elapsedMs.toFixed(3),
  };
  const code = error?.code ?? StatusCode.OK;
  if (INFO.has(code)) log.info("finished call", record);
  else if (WARN.has(code)) log.warn("finished call", record);
  else log.error("finished call", record);
}
