/**
 * Reads keys of an etcd cluster, API v3, over gRPC.
 *
 * @module
 */
export {
  EtcdClient,
  type EtcdClientOptions,
  type EtcdEntry,
  type EtcdSnapshot,
} from "./client.ts";
export { parseEndpoint } from "./endpoint.ts";
export { EtcdError, type EtcdErrorKind } from "./errors.ts";
