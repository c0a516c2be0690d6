import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  convertResult,
  CURRENT_CNI_VERSION,
  ErrorCode,
  type Result,
} from "../../../lib/cni/mod.ts";
import {
  AddResponseSchema,
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  encodeCniError,
} from "../../../lib/cnirpc/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  GrpcError,
  type GrpcService,
  StatusCode,
} from "../../../lib/grpc/mod.ts";
import { CallError } from "../base/errors.ts";
import type { CniCalls } from "../service/cni_calls.ts";
import { METHOD_NAMES, type MethodName } from "../service/method_names.ts";

/** `proto/cni.proto`, for Coil v2's plugin and for tools as grpcurl. */
export function grpcService(calls: CniCalls): GrpcService {
  return {
    definition: CNI,
    async handle({ method, request, signal, remainingMs }) {
      try {
        const result = await calls.call({
          method: methodNamed(method),
          read: () => decode(request),
          signal,
          remainingMs,
        });
        return encode(result);
      } catch (error) {
        throw error instanceof CallError ? toGrpcError(error) : error;
      }
    },
  };
}

function methodNamed(name: string): MethodName {
  const method = METHOD_NAMES.find((known) => known === name);
  if (method !== undefined) return method;
  const code = StatusCode.UNIMPLEMENTED;
  throw new GrpcError(`Cannot serve ${name}: no such method`, { code });
}

/** The answer to ADD; those of the others are empty. */
function encode(result: Result | undefined): Uint8Array {
  if (result === undefined) return new Uint8Array();
  const json = JSON.stringify(convertResult(result, CURRENT_CNI_VERSION));
  return toBinary(
    AddResponseSchema,
    create(AddResponseSchema, { result: new TextEncoder().encode(json) }),
  );
}

function decode(bytes: Uint8Array): CNIArgs {
  try {
    return fromBinary(CNIArgsSchema, bytes);
  } catch (cause) {
    throw new CallError(
      `Cannot decode ${CNIArgsSchema.typeName}: ${messageOf(cause)}`,
      {
        status: StatusCode.INVALID_ARGUMENT,
        code: ErrorCode.DECODING_FAILURE,
        cause,
      },
    );
  }
}

function toGrpcError(error: CallError): GrpcError {
  const { status, code, message, details } = error;
  const statusDetails = encodeCniError(status, { code, msg: message, details });
  return new GrpcError(message, { code: status, statusDetails, cause: error });
}
