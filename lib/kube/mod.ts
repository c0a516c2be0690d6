/**
 * A client of the Kubernetes API: requests, watches, caches, work queues, leader election and events.
 *
 * @module
 */
export {
  KubeClient,
  type KubeClientOptions,
  type LoadOptions,
} from "./client.ts";
export { type Clock, systemClock } from "./clock.ts";
export {
  Controller,
  type ControllerOptions,
  type ReconcileResult,
} from "./controller.ts";
export {
  KubeApiError,
  type KubeStatus,
  KubeUnreachableError,
  TerminalError,
} from "./errors.ts";
export {
  type EventInfo,
  EventRecorder,
  type EventRecorderOptions,
} from "./event_recorder.ts";
export { HttpTransport } from "./http_transport.ts";
export {
  type InClusterOptions,
  InClusterSource,
  SERVICE_ACCOUNT_DIR,
} from "./in_cluster.ts";
export { Informer, type InformerOptions } from "./informer.ts";
export { type KubeconfigOptions, KubeconfigSource } from "./kubeconfig.ts";
export { LeaderElector, type LeaderElectorOptions } from "./leader_elector.ts";
export { type ListEnvelope } from "./list_items.ts";
export { KubeMetrics } from "./metrics.ts";
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
} from "./options.ts";
export { type RequestInfo } from "./requester.ts";
export {
  apiVersionOf,
  CLUSTER_ROLE_BINDINGS,
  CONFIG_MAPS,
  CUSTOM_RESOURCE_DEFINITIONS,
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
  SECRETS,
  SELF_SUBJECT_REVIEWS,
  SERVICE_ACCOUNTS,
  SERVICE_CIDRS,
  SERVICES,
  splitKey,
  SUBJECT_ACCESS_REVIEWS,
  TOKEN_REQUESTS,
  TOKEN_REVIEWS,
} from "./resource.ts";
export { AccessReviews, metricsRefusal } from "./access_reviews.ts";
export {
  TokenAnswers,
  type TokenAnswersOptions,
  TooManyTokensError,
} from "./token_answers.ts";
export { type Indexes, Store, type StoreChange } from "./store.ts";
export type {
  Connection,
  ConnectionSource,
  StreamTimeouts,
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./transport.ts";
export type * from "./types.ts";
export { type WatchEvent } from "./watch.ts";
export { WorkQueue, type WorkQueueOptions } from "./work_queue.ts";
