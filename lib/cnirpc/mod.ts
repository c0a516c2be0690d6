/**
 * The contract between the CNI plugin and the node daemon: `proto/cni.proto`.
 * The plugin itself loads `lean/mod.ts` only.
 *
 * @module
 */
export { cniRpcError } from "./errors.ts";
export {
  type AddResponse,
  AddResponseSchema,
  type Attachment,
  AttachmentSchema,
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  type CNIError,
  CNIErrorSchema,
  ErrorCode,
  ErrorCodeSchema,
} from "./gen/cni_pb.ts";
export { requestFields } from "./request_fields.ts";
