/**
 * A gRPC server on a UNIX socket, by `@grpc/grpc-js`: with server reflection,
 * and with bounds on what peers can take.
 *
 * @module
 */
export { type RunningServer, serve, type ServeOptions } from "./server.ts";
export type { GrpcCall, GrpcService } from "./service.ts";
export { placeSocket, SocketPathError } from "./socket.ts";
export { codeName, codeNames, GrpcError, StatusCode } from "./status.ts";
