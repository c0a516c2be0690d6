// A cluster without a fault, as Prometheus sees it: two nodes, two controllers, a router, a pool and an Egress.

/** Values of time series in promtool's notation, one for each interval; without values a series is not there. */
export type SeriesValues = Readonly<Record<string, string | undefined>>;

/** A situation: what differs from the healthy cluster, and which alerts fire then, each with its labels. */
export interface Situation {
  readonly name: string;
  readonly series: SeriesValues;
  readonly fires?: Readonly<Record<string, string>>;
  /** Alerts that stay silent although what they look at is not as usual. */
  readonly nearly?: readonly string[];
  /** How many intervals have passed. Default 60. */
  readonly after?: number;
  /** Minutes between two samples. Default 1. */
  readonly intervalMinutes?: number;
}

const SAMPLES = 70;

/** The same value all the time. */
export const always = (value: number): string => `${value}+0x${SAMPLES}`;

/** A counter that grows with each sample. */
export const growing = (by: number): string => `0+${by}x${SAMPLES}`;

/** 0, and the value from a sample on. */
export const from = (sample: number, value: number): string =>
  `0+0x${sample - 1} ${always(value)}`;

const KUBE_SYSTEM = 'namespace="kube-system"';

/** Labels of coild's targets. */
export const COILD: string =
  `${KUBE_SYSTEM},job="coild",node="n1",pod="coild-1"`;
/** The second node's. */
export const COILD_2: string =
  `${KUBE_SYSTEM},job="coild",node="n2",pod="coild-2"`;
export const LEADER: string = `${KUBE_SYSTEM},job="coil-controller",pod="c-1"`;
export const STANDBY: string = `${KUBE_SYSTEM},job="coil-controller",pod="c-2"`;
export const ROUTER: string =
  `${KUBE_SYSTEM},job="coil-router",node="n1",pod="r-1"`;
export const GATEWAY = 'namespace="internet",job="egress",pod="nat-1"';
export const GATEWAY_EGRESS: string = `${GATEWAY},egress="nat"`;
/** Of coild's counters of calls. */
export const ADD: string = `${COILD},grpc_method="Add"`;
export const DEL: string = `${COILD},grpc_method="Del"`;
const CODES = [
  ..."Internal Unavailable NotFound FailedPrecondition".split(" "),
  ..."ResourceExhausted DeadlineExceeded".split(" "),
];
const REASONS = [
  ..."EgressNotFound EgressInvalid EgressUnavailable".split(" "),
  ..."EgressShadowed EgressFamilyMismatch".split(" "),
];

/** The healthy cluster's series. */
export const HEALTHY: SeriesValues = {
  ...[COILD, COILD_2].reduce((all, node) => ({ ...all, ...coild(node) }), {}),
  ...Object.fromEntries(CODES.flatMap((code) => [
    [`grpc_server_handled_total{${ADD},grpc_code="${code}"}`, always(0)],
    [`grpc_server_handled_total{${DEL},grpc_code="${code}"}`, always(0)],
  ])),
  ...Object.fromEntries(REASONS.map((reason) => [
    `coil_coild_egress_client_conditions{${COILD},reason="${reason}"}`,
    always(0),
  ])),
  ...Object.fromEntries(["desired", "current"].map((which) => [
    `kube_daemonset_status_${which}_number_scheduled{${KUBE_SYSTEM},daemonset="coild"}`,
    always(2),
  ])),
  ...controller(),
  ...vpc(COILD_2),
  ...coordinator(COILD),
  [`up{${ROUTER}}`]: always(1),
  [`coil_router_syncs_total{${ROUTER}}`]: growing(2),
  [`coil_router_routes_failed{${ROUTER}}`]: always(0),
  [`coil_router_repairs_total{${ROUTER}}`]: always(0),
  [`up{${GATEWAY}}`]: always(1),
  [`coil_egress_nf_conntrack_entries_count{${GATEWAY_EGRESS}}`]: always(100),
  [`coil_egress_nf_conntrack_entries_limit{${GATEWAY_EGRESS}}`]: always(1000),
  [`coil_egress_foreign_fou_packets_total{${GATEWAY_EGRESS}}`]: always(0),
  [`coil_egress_shared_addresses{${GATEWAY}}`]: always(0),
};

function coild(target: string): SeriesValues {
  const seconds = `grpc_server_handling_seconds_bucket{${target}`;
  return {
    [`up{${target}}`]: always(1),
    [`process_start_time_seconds{${target}}`]: always(1000),
    [`coil_coild_ready{${target}}`]: always(1),
    [`grpc_server_handled_total{${target},grpc_method="Add",grpc_code="OK"}`]:
      growing(2),
    [`grpc_server_handled_total{${target},grpc_method="Del",grpc_code="OK"}`]:
      growing(2),
    [`${seconds},grpc_method="Add",le="0.01"}`]: growing(2),
    [`${seconds},grpc_method="Add",le="10"}`]: growing(2),
    [`${seconds},grpc_method="Add",le="+Inf"}`]: growing(2),
    [`coil_coild_addresses{${target},pool="default",state="free"}`]: always(20),
    [`coil_coild_addresses{${target},pool="default",state="used"}`]: always(12),
    [`coil_coild_addresses{${target},pool="default",state="quarantined"}`]:
      always(0),
    [`coil_coild_blocks{${target},pool="default"}`]: always(1),
    [`coil_coild_reconciliations_total{${target},result="error"}`]: always(0),
    [`coil_coild_egress_gateways{${target},state="lost"}`]: always(0),
    [`coil_coild_egress_gateway_loss_seconds_count{${target}}`]: always(0),
    [`coil_coild_source_validation{${target}}`]: always(1),
    [`coil_coild_forged_packets_total{${target},family="ipv4"}`]: always(0),
    [`coil_coild_repairs_total{${target},what="rule"}`]: always(0),
    [`coil_coild_audit_findings{${target},code="address-leaked"}`]: always(0),
    [`coil_coild_audit_findings{${target},code="address-quarantined"}`]: always(
      0,
    ),
  };
}

/** A node whose pods have addresses of the VPC. */
function vpc(target: string): SeriesValues {
  const requests = `coil_vpc_api_requests_total{${target}`;
  const addresses = `coil_vpc_addresses{${target}`;
  return {
    [`${addresses},state="used"}`]: always(5),
    [`${addresses},state="cooling"}`]: always(0),
    [`${addresses},state="free"}`]: always(3),
    [`${requests},call="DescribeNetworkInterfaces",result="success"}`]: growing(
      1,
    ),
  };
}

/** A node whose pods have further interfaces. */
function coordinator(target: string): SeriesValues {
  const calls = `coil_coordinator_calls_total{${target}`;
  return Object.fromEntries(["ADD", "DEL", "CHECK"].flatMap((command) => [
    [`${calls},command="${command}",result="ok"}`, growing(1)],
    [`${calls},command="${command}",result="error"}`, always(0)],
  ]));
}

function controller(): SeriesValues {
  const egress = 'egress_namespace="internet",egress="nat"';
  const lost = "coil_controller_egress_gateway_lost_nodes";
  return {
    [`up{${LEADER}}`]: always(1),
    [`up{${STANDBY}}`]: always(1),
    [`leader_election_master_status{${LEADER},name="coil-ipam-leader"}`]:
      always(1),
    [`leader_election_master_status{${STANDBY},name="coil-ipam-leader"}`]:
      always(0),
    [`leader_election_master_status{${LEADER},name="coil-egress-leader"}`]:
      always(0),
    [`leader_election_master_status{${STANDBY},name="coil-egress-leader"}`]:
      always(1),
    [`coil_controller_max_blocks{${LEADER},pool="default"}`]: always(16),
    [`coil_controller_allocated_blocks{${LEADER},pool="default"}`]: always(2),
    [`coil_controller_free_blocks{${LEADER},pool="default"}`]: always(14),
    [`coil_controller_pool_overlaps{${LEADER},pool="default"}`]: always(0),
    [`coil_controller_pool_used_up_soon{${LEADER},pool="default"}`]: always(0),
    [`coil_controller_block_requests_total{${LEADER},pool="default",result="allocated"}`]:
      always(2),
    [`coil_controller_block_requests_total{${LEADER},pool="default",result="failed"}`]:
      always(0),
    [`coil_controller_gc_errors_total{${LEADER}}`]: always(0),
    [`coil_controller_audit_findings{${LEADER},code="duplicate-address"}`]:
      always(0),
    [`coil_controller_vpc_sweep_errors_total{${LEADER}}`]: always(0),
    [`coil_controller_egress_ready{${LEADER},${egress}}`]: always(1),
    [`coil_controller_egress_ready{${STANDBY},${egress}}`]: always(1),
    [`${lost}{${LEADER},${egress},gateway="nat-1"}`]: always(0),
    [`${lost}{${STANDBY},${egress},gateway="nat-1"}`]: always(0),
  };
}
