/**
 * A gRPC server on a UNIX socket, with server reflection and with bounds on
 * what peers can take, and unary calls to other servers. The HTTP/2 frames are
 * written and read here.
 *
 * @module
 */
export { exchange } from "./client/exchange.ts";
export { serve } from "./server/server.ts";
export type { GrpcService } from "./base/service.ts";
export { placeSocket, SocketPathError } from "./server/socket.ts";
export { CODE_NAMES, codeName, GrpcError, StatusCode } from "./base/status.ts";
