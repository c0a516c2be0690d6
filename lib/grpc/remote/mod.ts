/**
 * Unary gRPC calls over TCP, with TLS and client certificates.
 *
 * @module
 */
export {
  callUnaryRemote,
  type RemoteCallOptions,
  type RemoteEndpoint,
  RemoteUnreachableError,
  type TlsOptions,
} from "./client.ts";
export { type CertificateTrouble } from "./tls_trouble.ts";
export {
  decodeText,
  type ProtoField,
  ProtoWriter,
  readFields,
} from "../protobuf_wire.ts";
export { GrpcError, StatusCode } from "../status.ts";
