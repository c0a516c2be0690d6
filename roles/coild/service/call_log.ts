import { codeName, StatusCode } from "../../../lib/grpc/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { CallError } from "../base/errors.ts";
import { type MethodName, SERVICE_NAME } from "./method_names.ts";

const log = getLogger("grpc");

/** Fields of the log records about a call. */
export type CallFields = Readonly<Record<string, string>>;

/** What records say about a call; the names are those of go-grpc-middleware's logging interceptor. */
export function callFields(
  method: MethodName,
  remainingMs: number | undefined,
): CallFields {
  const start = new Date();
  const fields = {
    "protocol": "grpc",
    "grpc.component": "server",
    "grpc.service": SERVICE_NAME,
    "grpc.method": method,
    "grpc.method_type": "unary",
    "peer.address": "@",
    "grpc.start_time": start.toISOString(),
  };
  if (remainingMs === undefined) return fields;
  const deadline = new Date(start.getTime() + remainingMs).toISOString();
  return { ...fields, "grpc.request.deadline": deadline };
}

/** What records say about a call's request. */
export function requestFields(request: CniRequest): CallFields {
  return {
    "grpc.request.container_id": request.containerId,
    "grpc.request.ifname": request.ifname,
    "grpc.request.netns": request.netns,
    "grpc.request.pod.name": request.args["K8S_POD_NAME"] ?? "",
    "grpc.request.pod.namespace": request.args["K8S_POD_NAMESPACE"] ?? "",
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

/** Writes the record "finished call", spelt as upstream does. */
export function logFinished(
  fields: CallFields,
  { elapsedMs, error }: {
    readonly elapsedMs: number;
    readonly error: CallError | undefined;
  },
): void {
  const code = error?.status ?? StatusCode.OK;
  const record = {
    ...fields,
    "grpc.code": codeName(code),
    ...(error && { "grpc.error": error.message, err: error }),
    "grpc.time_ms": elapsedMs.toFixed(3),
  };
  if (INFO.has(code)) log.info("finished call", record);
  else if (WARN.has(code)) log.warn("finished call", record);
  else log.error("finished call", record);
}
