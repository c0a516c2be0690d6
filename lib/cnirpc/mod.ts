/**
 * The contract between CNI plugins and the node daemon: `proto/cni.proto`.
 * Coil's own plugin speaks `plugin/mod.ts` instead, and this contract only
 * with upstream's coild.
 *
 * @module
 */
export { decodeCniError, encodeCniError } from "./errors.ts";
export {
  AddResponseSchema,
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  type CNIError,
  CNIErrorSchema,
  ErrorCode,
} from "./gen/cni_pb.ts";
export { StatusSchema } from "./gen/google/rpc/status_pb.ts";
