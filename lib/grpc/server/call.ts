import { Buffer } from "node:buffer";
import { Metadata, type ServerUnaryCall } from "@grpc/grpc-js";
import { getLogger, withLogContext } from "../../telemetry/mod.ts";
import { codeName, GrpcError, StatusCode } from "../status.ts";
import type { BoundMethod, CallContext, RequestFields } from "./method.ts";
import type { CallMetrics } from "./metrics.ts";

const log = getLogger("grpc");

/** What grpc-js takes in place of an answer. */
export interface Failure {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

/** How a call ended; never a rejected promise. */
export type Outcome =
  | { readonly response: Buffer }
  | { readonly failure: Failure };

/**
 * Answers one call: decodes, runs the handler with the request's fields on all
 * its log records, counts, and writes the record "finished call".
 */
export async function answerCall(
  method: BoundMethod,
  call: ServerUnaryCall<Buffer, Buffer>,
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
    outcome = { response: Buffer.from(response) };
  } catch (thrown) {
    error = toGrpcError(thrown);
    outcome = { failure: toFailure(error) };
  }
  const elapsedMs = performance.now() - started;
  const name = codeName(error?.code ?? StatusCode.OK);
  metrics?.finish(method, { codeName: name, seconds: elapsedMs / 1000 });
  logFinished({ context, fields, elapsedMs, error, name });
  return outcome;
}

function contextOf(
  method: BoundMethod,
  call: ServerUnaryCall<Buffer, Buffer>,
): CallContext {
  const abort = new AbortController();
  const deadline = call.getDeadline();
  const expires = deadline instanceof Date ? deadline.getTime() : deadline;
  call.on("cancelled", () => {
    // grpc-js tells of a passed deadline as of a cancellation.
    const late = Date.now() >= expires;
    abort.abort(
      new GrpcError(late ? "Deadline exceeded" : "Cancelled by the caller", {
        code: late ? StatusCode.DEADLINE_EXCEEDED : StatusCode.CANCELLED,
      }),
    );
  });
  return {
    signal: abort.signal,
    deadline: Number.isFinite(expires) ? new Date(expires) : undefined,
    peer: "@",
    startTime: new Date(),
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

function toFailure({ code, message, statusDetails }: GrpcError): Failure {
  const metadata = new Metadata();
  if (statusDetails !== undefined) {
    metadata.set("grpc-status-details-bin", Buffer.from(statusDetails));
  }
  return { code, details: message, metadata };
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
