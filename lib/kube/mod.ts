/**
 * A client of the Kubernetes API: requests, watches, caches, work queues, leader election and events.
 *
 * @module
 */
export { keepFields } from "./api/keep_fields.ts";
export { hasEnded, isReadyPod, LIVE_PODS } from "./api/pods.ts";
export { KubeClient } from "./client/client.ts";
export { POD_HEADS } from "./client/pod_heads.ts";
export { deleteFinalized } from "./client/delete_finalized.ts";
export { unlessGone } from "./client/unless_gone.ts";
export { Controller, type ReconcileResult } from "./loops/controller.ts";
export { explainKubeError, type KubeAdvice } from "./http/advice.ts";
export { KubeApiError, KubeUnreachableError } from "./http/errors.ts";
export { type EventInfo, EventRecorder } from "./loops/event_recorder.ts";
export { HttpTransport } from "./http/http_transport.ts";
export { InClusterSource } from "./http/in_cluster.ts";
export { Informer } from "./cache/informer.ts";
export type { InformerOptions } from "./cache/informer_options.ts";
export { KubeconfigSource } from "./http/kubeconfig.ts";
export { LeaderElector } from "./loops/leader_elector.ts";
export { KubeMetrics } from "./loops/metrics.ts";
export type {
  DeleteOptions,
  JsonPatchOperation,
  ListEnvelope,
  ListFormat,
} from "./http/options.ts";
export { type RequestInfo } from "./http/requester.ts";
export {
  CLUSTER_ROLE_BINDINGS,
  clusterWide,
  CONFIG_MAPS,
  DAEMON_SETS,
  DEPLOYMENTS,
  ENDPOINT_SLICES,
  EVENTS,
  isPathSegment,
  keyOf,
  LEASES,
  namespaced,
  NAMESPACES,
  NODES,
  POD_DISRUPTION_BUDGETS,
  PODS,
  referenceTo,
  resourcePath,
  type ResourceType,
  ROLE_BINDINGS,
  SELF_SUBJECT_REVIEWS,
  SERVICE_ACCOUNTS,
  SERVICE_CIDRS,
  SERVICES,
  splitKey,
  TOKEN_REQUESTS,
  TOKEN_REVIEWS,
} from "./api/resource.ts";
export { metricsRefusal } from "./client/access_reviews.ts";
export { TokenAnswers, TooManyTokensError } from "./client/token_answers.ts";
export { type Indexes, Store, type StoreChange } from "./cache/store.ts";
export type {
  ConnectionSource,
  StreamTimeouts,
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./http/transport.ts";
export type * from "./api/objects.ts";
