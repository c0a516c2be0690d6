/**
 * Reads keys of an etcd cluster, API v3, over gRPC.
 *
 * @module
 */
export {
  EtcdClient,
  type EtcdClientOptions,
  type EtcdEntry,
} from "./client.ts";
export { parseEndpoint } from "./endpoint.ts";
export { EtcdError } from "./errors.ts";
