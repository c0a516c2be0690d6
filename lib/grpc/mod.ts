/**
 * Unary gRPC calls over a UNIX socket, without packages: the HTTP/2 frames are
 * written and read here, so that a short-lived process starts fast. The server
 * is in `server/mod.ts`.
 *
 * @module
 */
export { type CallOptions, callUnary } from "./client.ts";
export { decodeText, ProtoWriter, readFields } from "./protobuf_wire.ts";
export type { ProtoField } from "./protobuf_wire.ts";
export {
  decodeRpcStatus,
  encodeRpcStatus,
  type RpcStatus,
  type StatusDetail,
} from "./rpc_status.ts";
export { codeName, ConnectError, GrpcError, StatusCode } from "./status.ts";
