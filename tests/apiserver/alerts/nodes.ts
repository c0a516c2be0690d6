// Faults of nodes and their routes, and what looks like them.
import {
  ADD,
  always,
  COILD,
  COILD_2,
  DEL,
  from,
  growing,
  ROUTER,
  type Situation,
} from "./healthy.ts";

const DAEMONSET = '{namespace="kube-system",daemonset="coild"}';
const CURRENT =
  `kube_daemonset_status_current_number_scheduled${DAEMONSET}` as const;
const handled = (call: string, code: string) =>
  `grpc_server_handled_total{${call},grpc_code="${code}"}`;
const seconds = (le: string) =>
  `grpc_server_handling_seconds_bucket{${ADD},le="${le}"}`;
const start = `process_start_time_seconds{${COILD}}`;
const quarantined =
  `coil_coild_addresses{${COILD},pool="default",state="quarantined"}`;
const failedReconciliations =
  `coil_coild_reconciliations_total{${COILD},result="error"}`;
const forged = `coil_coild_forged_packets_total{${COILD},family="ipv4"}`;
const findings = (code: string) =>
  `coil_coild_audit_findings{${COILD},code="${code}"}`;
const leaked = findings("address-leaked");
const quarantineFound = findings("address-quarantined");
const repairs = `coil_coild_repairs_total{${COILD},what="rule"}`;
const synced = `coil_router_syncs_total{${ROUTER}}`;

/** No series of coild has a value: its process ends before it listens. */
const gone = {
  [`up{${COILD}}`]: `1+0x29 ${always(0)}`,
  [`coil_coild_ready{${COILD}}`]: "1+0x29",
  [start]: "1000+0x29",
};

/** What happens on nodes. */
export const NODES: readonly Situation[] = [
  { name: "nothing is wrong", series: {} },
  {
    name: "coild ends again and again before it listens",
    series: gone,
    fires: { CoilNodeDown: COILD },
  },
  {
    name: "a new coild replaces the old one within three minutes",
    nearly: ["CoilNodeDown"],
    series: { ...gone, [`up{${COILD}}`]: `1+0x54 0+0x2 ${always(1)}` },
  },
  {
    name: "no pod of coild can be made for a node",
    series: { [CURRENT]: always(1) },
    fires: {
      CoilNodeWithoutCoild: 'namespace="kube-system",daemonset="coild"',
    },
  },
  {
    name: "the pod of a new node comes after a minute",
    nearly: ["CoilNodeWithoutCoild"],
    series: { [CURRENT]: `2+0x57 1 ${always(2)}` },
  },
  {
    name: "Prometheus has no coild",
    series: { [`up{${COILD}}`]: undefined, [`up{${COILD_2}}`]: undefined },
    fires: { CoilNotScraped: 'job="coild"' },
  },
  {
    name: "Prometheus found no coild for a while, as after its own start",
    nearly: ["CoilNotScraped"],
    series: {
      [`up{${COILD}}`]: `1+0x40 _x12 ${always(1)}`,
      [`up{${COILD_2}}`]: `1+0x40 _x12 ${always(1)}`,
    },
  },
  {
    name: "Prometheus has one coild of two",
    nearly: ["CoilNotScraped"],
    series: { [`up{${COILD}}`]: undefined },
  },
  {
    name: "coild is always there when it is scraped, but each time another",
    series: { [start]: growing(60) },
    fires: { CoilProgramRestarts: COILD },
  },
  {
    name: "coild was updated twice",
    nearly: ["CoilProgramRestarts"],
    series: { [start]: "1000+0x30 3000+0x10 4000+0x60" },
  },
  {
    name: "coild is not ready",
    series: { [`coil_coild_ready{${COILD}}`]: always(0) },
    fires: { CoilNodeServesNoPods: COILD },
  },
  {
    name: "coild was not ready for three minutes",
    nearly: ["CoilNodeServesNoPods"],
    series: { [`coil_coild_ready{${COILD}}`]: `1+0x54 0+0x2 ${always(1)}` },
  },
  {
    name: "the kernel refuses every second pod",
    series: { [handled(ADD, "Internal")]: growing(2) },
    fires: { CoilPodStartsFail: 'node="n1"' },
  },
  {
    name: "a node without other pods fails one",
    nearly: ["CoilPodStartsFail"],
    series: {
      [handled(ADD, "OK")]: always(5),
      [handled(ADD, "Internal")]: from(50, 1),
    },
  },
  {
    name: "pods are deleted before their ADD",
    nearly: ["CoilPodStartsFail"],
    series: { [handled(ADD, "NotFound")]: growing(4) },
  },
  {
    name: "coil-controller does not answer in time",
    series: { [handled(ADD, "DeadlineExceeded")]: growing(2) },
    fires: { CoilPodStartsFail: 'node="n1"' },
  },
  {
    name: "a pod wants an Egress that does not exist",
    series: { [handled(ADD, "FailedPrecondition")]: growing(1) },
    fires: { CoilPodsRefused: 'node="n1"' },
  },
  {
    name: "a pod comes a moment before its Egress",
    nearly: ["CoilPodsRefused"],
    series: { [handled(ADD, "FailedPrecondition")]: from(50, 2) },
  },
  {
    name: "ADDs take seconds",
    series: { [seconds("0.01")]: always(0) },
    fires: { CoilPodStartsSlow: 'node="n1"' },
  },
  {
    name: "one ADD of a quiet node was slow",
    nearly: ["CoilPodStartsSlow"],
    series: {
      [seconds("0.01")]: always(3),
      [seconds("10")]: `3+0x50 ${always(4)}`,
      [seconds("+Inf")]: `3+0x50 ${always(4)}`,
    },
  },
  {
    name: "pods cannot be removed",
    series: { [handled(DEL, "Unavailable")]: growing(1) },
    fires: { CoilPodStopsFail: 'node="n1"' },
  },
  {
    name: "one DEL failed and was repeated",
    nearly: ["CoilPodStopsFail"],
    series: { [handled(DEL, "Unavailable")]: from(50, 1) },
  },
  {
    name: "an admin deleted a block in use",
    series: { [quarantined]: always(3) },
    fires: { CoilAddressesQuarantined: 'node="n1",pool="default"' },
  },
  {
    name: "the block came back",
    nearly: ["CoilAddressesQuarantined"],
    series: { [quarantined]: `0+0x50 3+0x8 ${always(0)}` },
  },
  {
    name: "an address leaks for half an hour",
    series: { [leaked]: "0+0x29 1+0x30" },
    fires: { CoilNodeAddressesInconsistent: 'node="n1",code="address-leaked"' },
  },
  {
    name: "a leak is mended by coild, and an address is quarantined",
    nearly: ["CoilNodeAddressesInconsistent"],
    series: {
      [leaked]: `0+0x40 1+0x15 ${always(0)}`,
      [quarantineFound]: "0+0x29 1+0x30",
    },
  },
  {
    name: "reconciliations fail",
    series: { [failedReconciliations]: growing(1) },
    fires: { CoilReconciliationFails: `${COILD},result="error"` },
  },
  {
    name: "two reconciliations failed",
    nearly: ["CoilReconciliationFails"],
    series: { [failedReconciliations]: from(45, 2) },
  },
  {
    name: "the kernel has no nf_tables",
    series: { [`coil_coild_source_validation{${COILD}}`]: always(0) },
    fires: { CoilSourcesUnchecked: COILD },
  },
  {
    name: "the table was restored after a minute",
    nearly: ["CoilSourcesUnchecked"],
    series: {
      [`coil_coild_source_validation{${COILD}}`]: `1+0x57 0 ${always(1)}`,
    },
  },
  {
    name: "a pod forges its source",
    series: { [forged]: growing(600) },
    fires: { CoilForgedSources: 'node="n1"' },
  },
  {
    name: "now and then a packet of a past connection is dropped",
    nearly: ["CoilForgedSources"],
    series: { [forged]: growing(5) },
  },
  {
    name: "another program flushes rules",
    series: { [repairs]: growing(1) },
    fires: { CoilNodeNetworkRemoved: 'node="n1"' },
  },
  {
    name: "another program flushes the router's routes",
    series: { [`coil_router_repairs_total{${ROUTER}}`]: growing(1) },
    fires: { CoilNodeNetworkRemoved: 'node="n1"' },
  },
  {
    name: "an admin flushed rules once",
    nearly: ["CoilNodeNetworkRemoved"],
    series: { [repairs]: from(55, 1) },
  },
  {
    name: "coil-router is dead",
    series: { [`up{${ROUTER}}`]: always(0), [synced]: undefined },
    fires: { CoilRouterDown: ROUTER },
  },
  {
    name: "coil-router is restarted",
    nearly: ["CoilRouterDown", "CoilRoutesStale"],
    series: {
      [`up{${ROUTER}}`]: `1+0x54 0+0x2 ${always(1)}`,
      [synced]: "0+2x54 _x3 0+2x70",
    },
  },
  {
    name: "there is no coil-router",
    nearly: ["CoilRouterDown"],
    series: { [`up{${ROUTER}}`]: undefined },
  },
  {
    name: "the kernel refuses a route",
    series: { [`coil_router_routes_failed{${ROUTER}}`]: always(2) },
    fires: { CoilRoutesFail: ROUTER },
  },
  {
    name: "the other node's link came up after five minutes",
    nearly: ["CoilRoutesFail"],
    series: {
      [`coil_router_routes_failed{${ROUTER}}`]: `0+0x50 2+0x5 ${always(0)}`,
    },
  },
  {
    name: "coil-router hangs",
    series: { [synced]: always(9) },
    fires: { CoilRoutesStale: ROUTER },
  },
];
