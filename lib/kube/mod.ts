/**
 * A client of the Kubernetes API: requests, watches, caches, work queues, leader election and events.
 *
 * @module
 */
export {
  KubeClient,
  type KubeClientOptions,
  type LoadOptions,
} from "./client/client.ts";
export {
  Controller,
  type ControllerOptions,
  type ReconcileResult,
} from "./loops/controller.ts";
export {
  KubeApiError,
  type KubeStatus,
  KubeUnreachableError,
  TerminalError,
} from "./http/errors.ts";
export {
  type EventInfo,
  EventRecorder,
  type EventRecorderOptions,
} from "./loops/event_recorder.ts";
export { HttpTransport } from "./http/http_transport.ts";
export {
  type InClusterOptions,
  InClusterSource,
  SERVICE_ACCOUNT_DIR,
} from "./http/in_cluster.ts";
export { Informer, type InformerOptions } from "./cache/informer.ts";
export { type KubeconfigOptions, KubeconfigSource } from "./http/kubeconfig.ts";
export {
  LeaderElector,
  type LeaderElectorOptions,
} from "./loops/leader_elector.ts";
export { type ListEnvelope } from "./client/list_items.ts";
export { KubeMetrics } from "./loops/metrics.ts";
export type {
  CallOptions,
  CreateOptions,
  DeleteOptions,
  GetOptions,
  JsonPatchOperation,
  KubeList,
  ListOptions,
  PatchOptions,
  PatchTarget,
  Selection,
  WatchOptions,
  WriteOptions,
} from "./http/options.ts";
export { type RequestInfo } from "./http/requester.ts";
export {
  apiVersionOf,
  CLUSTER_ROLE_BINDINGS,
  CONFIG_MAPS,
  DAEMON_SETS,
  DEPLOYMENTS,
  ENDPOINT_SLICES,
  EVENTS,
  isPathSegment,
  keyOf,
  LEASES,
  NAMESPACES,
  NODES,
  type PathParts,
  POD_DISRUPTION_BUDGETS,
  PODS,
  resourcePath,
  type ResourceType,
  ROLE_BINDINGS,
  SELF_SUBJECT_REVIEWS,
  SERVICE_ACCOUNTS,
  SERVICE_CIDRS,
  SERVICES,
  splitKey,
  SUBJECT_ACCESS_REVIEWS,
  TOKEN_REQUESTS,
  TOKEN_REVIEWS,
} from "./api/resource.ts";
export { AccessReviews, metricsRefusal } from "./client/access_reviews.ts";
export {
  TokenAnswers,
  type TokenAnswersOptions,
  TooManyTokensError,
} from "./client/token_answers.ts";
export { type Indexes, Store, type StoreChange } from "./cache/store.ts";
export type {
  Connection,
  ConnectionSource,
  StreamTimeouts,
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./http/transport.ts";
export type * from "./api/types.ts";
export { type WatchEvent } from "./client/watch.ts";
export { WorkQueue, type WorkQueueOptions } from "./loops/work_queue.ts";
