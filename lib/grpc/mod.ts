/**
 * A gRPC server on a UNIX socket, with server reflection and with bounds on
 * what peers can take. The HTTP/2 frames are written and read here.
 *
 * @module
 */
export {
  type RunningServer,
  serve,
  type ServeOptions,
} from "./server/server.ts";
export type { GrpcCall, GrpcService } from "./service.ts";
export { placeSocket, SocketPathError } from "./server/socket.ts";
export { codeName, codeNames, GrpcError, StatusCode } from "./status.ts";
