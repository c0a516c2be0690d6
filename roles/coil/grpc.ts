import type { PluginAnswer } from "../../lib/cnirpc/plugin/mod.ts";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { startTimer } from "../../lib/async/mod.ts";
import { CniError, parseResult, type Result } from "../../lib/cni/mod.ts";
import {
  AddResponseSchema,
  CNI,
  CNIArgsSchema,
  decodeCniError,
} from "../../lib/cnirpc/mod.ts";
import { exchange, GrpcError, StatusCode } from "../../lib/grpc/mod.ts";
import {
  answerWith,
  NoAnswerError,
  type PluginCall,
} from "../../lib/plugin/mod.ts";
import { connect, detailsOf, PATIENCE_MS } from "./ask.ts";

/** What the request gives coild as its time limit; upstream's plugin has the same. */
const CALL_MS = 60_000;

const METHODS = {
  ADD: "Add",
  DEL: "Del",
  CHECK: "Check",
  GC: "Gc",
  STATUS: "Status",
} as const satisfies Record<PluginCall["command"], string>;

/**
 * Takes a call to a coild that serves gRPC alone, as upstream's plugin does.
 *
 * @throws {NoAnswerError} when there is no answer of the contract
 * @throws {CniError} when coild answers with an error
 */
export async function askByGrpc(
  call: PluginCall,
  { patienceMs = PATIENCE_MS }: { readonly patienceMs?: number } = {},
): Promise<PluginAnswer> {
  const { command, socketPath } = call;
  try {
    const answer = await callMethod(call, patienceMs);
    return answerWith(call, command === "ADD" ? resultOf(answer) : undefined);
  } catch (cause) {
    if (isLeftOut(command, cause)) return answerWith(call, undefined);
    if (cause instanceof CniError) throw cause;
    const error = cause instanceof GrpcError && cause.statusDetails
      ? decodeCniError(cause.statusDetails)
      : undefined;
    if (error !== undefined) {
      const { code, msg, details } = error;
      throw new CniError(msg, { code, details, cause });
    }
    throw new NoAnswerError("coild did not answer", {
      details: detailsOf(socketPath, cause),
      cause,
    });
  }
}

async function callMethod(
  { command, socketPath, request }: PluginCall,
  patienceMs: number,
): Promise<Uint8Array> {
  using connection = await connect(socketPath, patienceMs);
  let isLate = false;
  using _late = startTimer(patienceMs, () => {
    isLate = true;
    connection.close();
  });
  try {
    return await exchange(connection, {
      method: `/${CNI.typeName}/${METHODS[command]}`,
      message: encode(request),
      timeoutMs: Math.min(CALL_MS, patienceMs),
    });
  } catch (cause) {
    throw isLate ? new Error("coild hangs", { cause }) : cause;
  }
}

function encode(request: PluginCall["request"]): Uint8Array {
  const { args, ips, interfaces, validAttachments, ...rest } = request;
  const message = create(CNIArgsSchema, {
    ...rest,
    args: { ...args },
    ips: [...ips],
    interfaces: { ...interfaces },
    validAttachments: [...validAttachments],
  });
  return toBinary(CNIArgsSchema, message);
}

/** Upstream's coild knows no GC and no STATUS: it collects by itself, and answers when it is ready. */
function isLeftOut(command: PluginCall["command"], error: unknown): boolean {
  return (command === "GC" || command === "STATUS") &&
    error instanceof GrpcError && error.code === StatusCode.UNIMPLEMENTED;
}

/** @throws {CniError} when it is not a result */
function resultOf(answer: Uint8Array): Result {
  const { result } = fromBinary(AddResponseSchema, answer);
  return parseResult(JSON.parse(new TextDecoder().decode(result)));
}
