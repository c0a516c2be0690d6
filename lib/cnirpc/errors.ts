import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { type CNIError, CNIErrorSchema, type ErrorCode } from "./gen/cni_pb.ts";
import { StatusSchema } from "./gen/google/rpc/status_pb.ts";

/**
 * What the status of a call that failed has in its trailer
 * `grpc-status-details-bin`: a google.rpc.Status whose only detail is a
 * pkg.cnirpc.CNIError, which plugins print.
 */
export function encodeCniError(
  status: number,
  { code, msg, details }: {
    readonly code: number;
    readonly msg: string;
    readonly details: string;
  },
): Uint8Array {
  const detail = create(CNIErrorSchema, {
    code: code as ErrorCode, // proto3: values that the enum does not name are allowed
    msg,
    details,
  });
  return toBinary(
    StatusSchema,
    create(StatusSchema, {
      code: status,
      message: msg,
      details: [anyPack(CNIErrorSchema, detail)],
    }),
  );
}

/** What {@linkcode encodeCniError} wrote; undefined when it is something else. */
export function decodeCniError(status: Uint8Array): CNIError | undefined {
  try {
    const { details } = fromBinary(StatusSchema, status);
    const [detail] = details;
    return detail === undefined ? undefined : anyUnpack(detail, CNIErrorSchema);
  } catch {
    // Not protobuf: what the status says is left.
    return undefined;
  }
}
