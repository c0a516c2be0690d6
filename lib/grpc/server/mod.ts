/**
 * A gRPC server on a UNIX socket, with call log, metrics and reflection.
 *
 * @module
 */
export type { IncomingCall } from "./call.ts";
export {
  type BoundMethod,
  type CallContext,
  type PreparedCall,
  type RequestFields,
  unary,
} from "./method.ts";
export { type RunningServer, serve, type ServeOptions } from "./server.ts";
export { placeSocket, SocketPathError } from "./socket.ts";
export { codeName, GrpcError, StatusCode } from "../status.ts";
export {
  encodeRpcStatus,
  type RpcStatus,
  type StatusDetail,
} from "../rpc_status.ts";
