import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { CNIErrorSchema, type ErrorCode } from "./gen/cni_pb.ts";
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
