import { encodeRpcStatus, GrpcError } from "../grpc/mod.ts";
import { CNI_ERROR_TYPE_URL, encodeCniError } from "./lean/mod.ts";

/**
 * The error that a call to the daemon ends with: a gRPC status whose only
 * detail is a pkg.cnirpc.CNIError, which the plugin prints.
 */
export function cniRpcError(
  message: string,
  options: {
    /** Status code of gRPC. */
    readonly code: number;
    /** Error code of CNI. */
    readonly cniCode: number;
    readonly details?: string;
    readonly cause?: unknown;
  },
): GrpcError {
  const { code, cniCode, details = "", cause } = options;
  const value = encodeCniError({ code: cniCode, msg: message, details });
  const statusDetails = encodeRpcStatus({
    code,
    message,
    details: [{ typeUrl: CNI_ERROR_TYPE_URL, value }],
  });
  return new GrpcError(message, { code, statusDetails, cause });
}
