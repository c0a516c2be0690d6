// Faults of pools, controllers and gateways, and what looks like them.
import {
  ADD,
  always,
  COILD,
  COILD_2,
  from,
  GATEWAY,
  GATEWAY_EGRESS,
  growing,
  LEADER,
  type SeriesValues,
  type Situation,
  STANDBY,
} from "./healthy.ts";

const POOL = 'pool="default"';
const ofPool = (name: string) => `coil_controller_${name}{${LEADER},${POOL}}`;
const addresses = (node: string, state: string) =>
  `coil_coild_addresses{${node},${POOL},state="${state}"}`;
const failed =
  `coil_controller_block_requests_total{${LEADER},${POOL},result="failed"}`;
const addsExhausted =
  `grpc_server_handled_total{${ADD},grpc_code="ResourceExhausted"}`;
const exhausted = `coil_coild_pool_exhausted_adds_total{${COILD},${POOL}}`;
const other = (name: string) =>
  `coil_controller_${name}{${LEADER},pool="other"}`;
const lease = (pod: string, half: string) =>
  `leader_election_master_status{${pod},name="coil-${half}-leader"}`;
const ready = (pod: string) =>
  `coil_controller_egress_ready{${pod},egress_namespace="internet",egress="nat"}`;
const duplicates =
  `coil_controller_audit_findings{${LEADER},code="duplicate-address"}`;
const condition = (reason: string) =>
  `coil_coild_egress_client_conditions{${COILD},reason="${reason}"}`;
const lostGateways = `coil_coild_egress_gateways{${COILD},state="lost"}`;
const lostNodes = (pod: string) =>
  `coil_controller_egress_gateway_lost_nodes{${pod},egress_namespace="internet",egress="nat",gateway="nat-1"}`;
const losses = `coil_coild_egress_gateway_loss_seconds_count{${COILD}}`;
/** A counter that grows by one each so many samples. */
const lossEvery = (samples: number) =>
  Array.from({ length: 10 }, (_, count) => `${count}+0x${samples - 1}`).join(
    " ",
  );
const ports = 'protocol="tcp",destination="192.0.2.1",port="443"';
const client = 'client="shop/front",client_ip="10.1.0.1"';

/** All blocks are given out: eight to each of two nodes, with as many free addresses of 256 on each. */
const blocksOut = (free: number): SeriesValues => ({
  [ofPool("free_blocks")]: always(0),
  [ofPool("allocated_blocks")]: always(16),
  ...Object.fromEntries([COILD, COILD_2].flatMap((node) => [
    [`coil_coild_blocks{${node},${POOL}}`, always(8)],
    [addresses(node, "free"), always(free)],
    [addresses(node, "used"), always(256 - free)],
  ])),
});

/** Labels of the overlay compat's targets. */
const half = (name: string) =>
  `namespace="kube-system",job="coil-${name}-controller",pod="${name}-1"`;
const halves = (isEgressUp: 0 | 1): SeriesValues => ({
  [`up{${LEADER}}`]: undefined,
  [`up{${STANDBY}}`]: undefined,
  [`up{${half("ipam")}}`]: always(1),
  [`up{${half("egress")}}`]: always(isEgressUp),
});

/** What happens to pools, controllers and Egresses. */
export const CLUSTER: readonly Situation[] = [
  {
    name: "all blocks are out, and nodes have 90 free addresses",
    nearly: ["CoilPoolLow", "CoilPoolExhausted"],
    series: { ...blocksOut(45), [failed]: growing(1) },
  },
  {
    name: "all blocks are out, and hardly an address is free",
    series: { ...blocksOut(20), [failed]: growing(1) },
    fires: { CoilPoolLow: POOL },
  },
  {
    name: "all addresses are used, and pods start no more",
    series: {
      ...blocksOut(0),
      [failed]: growing(1),
      [addsExhausted]: growing(1),
      [exhausted]: growing(1),
    },
    fires: { CoilPoolLow: POOL, CoilPoolExhausted: POOL },
  },
  {
    name: "a node is full while others have free addresses",
    series: { ...blocksOut(45), [failed]: growing(1), [exhausted]: growing(1) },
    fires: { CoilPoolExhausted: POOL },
  },
  {
    name: "nodes cannot fill their stores, and pods of another pool fail",
    series: {
      ...blocksOut(45),
      [failed]: growing(1),
      [addsExhausted]: growing(1),
      [other("free_blocks")]: always(0),
      [`coil_coild_pool_exhausted_adds_total{${COILD},pool="other"}`]: growing(
        1,
      ),
    },
    fires: { CoilPoolExhausted: 'pool="other"' },
  },
  {
    name:
      "nodes cannot fill their stores, and a node is at another pool's limit",
    series: {
      ...blocksOut(45),
      [failed]: growing(1),
      [addsExhausted]: growing(1),
      [other("free_blocks")]: always(8),
      [`coil_controller_block_requests_total{${LEADER},pool="other",result="failed"}`]:
        growing(1),
    },
    fires: { CoilBlockRequestsFail: 'pool="other"' },
  },
  {
    name: "one pod found no address, the next one did",
    nearly: ["CoilPoolExhausted"],
    series: {
      ...blocksOut(45),
      [failed]: from(55, 1),
      [exhausted]: from(55, 1),
    },
  },
  {
    name: "a pool has no blocks at all",
    series: Object.fromEntries(
      ["free_blocks", "allocated_blocks", "max_blocks"]
        .map((name) => [
          `coil_controller_${name}{${LEADER},pool="empty"}`,
          always(0),
        ]),
    ),
  },
  {
    name: "a pool was full for ten minutes",
    nearly: ["CoilPoolLow"],
    series: {
      [ofPool("free_blocks")]: `14+0x49 0+0x9 ${always(14)}`,
      [addresses(COILD, "free")]: `20+0x49 0+0x9 ${always(20)}`,
      [addresses(COILD_2, "free")]: `20+0x49 0+0x9 ${always(20)}`,
    },
  },
  {
    name: "no block of a pool is left in a day",
    series: { [ofPool("pool_used_up_soon")]: always(1) },
    fires: { CoilPoolUsedUpSoon: POOL },
  },
  {
    name: "a pool grew fast for ten minutes",
    nearly: ["CoilPoolUsedUpSoon"],
    series: { [ofPool("pool_used_up_soon")]: `0+0x48 1+0x9 ${always(0)}` },
  },
  {
    name: "another pool has the addresses",
    series: { [ofPool("pool_overlaps")]: always(1) },
    fires: { CoilPoolOverlaps: POOL },
  },
  {
    name: "an overlap was repaired within ten minutes",
    nearly: ["CoilPoolOverlaps"],
    series: { [ofPool("pool_overlaps")]: `0+0x48 1+0x9 ${always(0)}` },
  },
  {
    name: "two pods have one address",
    series: { [duplicates]: "0+0x39 2+0x20" },
    fires: { CoilAddressesInconsistent: 'code="duplicate-address"' },
  },
  {
    name: "one of two pods with one address was deleted within ten minutes",
    nearly: ["CoilAddressesInconsistent"],
    series: { [duplicates]: `0+0x48 2+0x10 ${always(0)}` },
  },
  {
    name: "a node has reached its limit of blocks",
    series: { [failed]: growing(1) },
    fires: { CoilBlockRequestsFail: POOL },
  },
  {
    name: "one request was refused",
    nearly: ["CoilBlockRequestsFail"],
    series: { [failed]: from(50, 1) },
  },
  {
    name: "no controller runs",
    series: {
      [`up{${LEADER}}`]: undefined,
      [`up{${STANDBY}}`]: undefined,
      [lease(LEADER, "ipam")]: undefined,
      [lease(LEADER, "egress")]: undefined,
      [lease(STANDBY, "ipam")]: undefined,
      [lease(STANDBY, "egress")]: undefined,
    },
    fires: { CoilControllerAbsent: "" },
  },
  {
    name: "both controllers end before they listen",
    series: { [`up{${LEADER}}`]: always(0), [`up{${STANDBY}}`]: always(0) },
    fires: {
      CoilControllerAbsent: "",
      CoilControllerDown: [LEADER, STANDBY].join(" "),
    },
  },
  {
    name: "the controller's halves have upstream's names",
    nearly: ["CoilControllerAbsent"],
    series: halves(1),
  },
  {
    name: "only one of the controller's halves is there",
    series: halves(0),
    fires: {
      CoilControllerAbsent: "",
      CoilControllerDown: half("egress"),
    },
  },
  {
    name: "the standby is dead",
    nearly: ["CoilControllerAbsent"],
    series: { [`up{${STANDBY}}`]: always(0) },
    fires: { CoilControllerDown: STANDBY },
  },
  {
    name: "the controllers were replaced one after the other",
    nearly: ["CoilControllerDown", "CoilControllerAbsent"],
    series: {
      [`up{${LEADER}}`]: `1+0x50 0+0x1 ${always(1)}`,
      [`up{${STANDBY}}`]: `1+0x52 0+0x1 ${always(1)}`,
    },
  },
  {
    name: "nobody holds a lease",
    series: { [lease(LEADER, "ipam")]: always(0) },
    fires: { CoilControllerLeaderless: 'name="coil-ipam-leader"' },
  },
  {
    name: "the other replica takes over",
    nearly: ["CoilControllerLeaderless"],
    series: {
      [lease(LEADER, "ipam")]: `1+0x56 ${always(0)}`,
      [lease(STANDBY, "ipam")]: `0+0x58 ${always(1)}`,
    },
  },
  {
    name: "another program has a leader election",
    series: {
      'leader_election_master_status{job="other",name="other-leader"}': always(
        0,
      ),
    },
  },
  {
    name: "blocks of deleted nodes cannot be deleted",
    series: { [`coil_controller_gc_errors_total{${LEADER}}`]: growing(1) },
    fires: { CoilGarbageCollectionFails: LEADER },
  },
  {
    name: "two attempts to delete a block failed",
    nearly: ["CoilGarbageCollectionFails"],
    series: { [`coil_controller_gc_errors_total{${LEADER}}`]: from(50, 2) },
  },
  {
    name: "coil-controller may not delete the ENIs of deleted nodes",
    series: {
      [`coil_controller_vpc_sweep_errors_total{${LEADER}}`]: growing(1),
    },
    fires: { CoilVpcSweepFails: LEADER },
  },
  {
    name: "EC2 did not answer twice",
    nearly: ["CoilVpcSweepFails"],
    series: {
      [`coil_controller_vpc_sweep_errors_total{${LEADER}}`]: from(50, 2),
    },
  },
  {
    name: "an Egress has no gateway, and the standby has not noticed",
    series: { [ready(LEADER)]: always(0) },
    fires: { CoilEgressNotReady: 'egress_namespace="internet",egress="nat"' },
  },
  {
    name: "a new Egress starts its gateways",
    nearly: ["CoilEgressNotReady"],
    series: {
      [ready(LEADER)]: `_x54 0+0x3 ${always(1)}`,
      [ready(STANDBY)]: `_x54 0+0x3 ${always(1)}`,
    },
  },
  {
    name: "clients have no gateway",
    series: { [condition("EgressUnavailable")]: always(2) },
    fires: { CoilEgressClientsUnserved: 'node="n1"' },
  },
  {
    name: "gateways were replaced",
    nearly: ["CoilEgressClientsUnserved"],
    series: { [condition("EgressUnavailable")]: `0+0x55 2+0x2 ${always(0)}` },
  },
  {
    name: "another Egress has the destination",
    series: { [condition("EgressShadowed")]: always(2) },
  },
  {
    name: "clients name an Egress that does not exist",
    series: { [condition("EgressNotFound")]: always(2) },
    fires: {
      CoilEgressClientsMisconfigured: 'node="n1",reason="EgressNotFound"',
    },
  },
  {
    name: "a kernel cannot make a running pod a client",
    series: { [condition("EgressUnsupported")]: always(1) },
    fires: {
      CoilEgressClientsMisconfigured: 'node="n1",reason="EgressUnsupported"',
    },
  },
  {
    name: "a family is missing for some minutes",
    nearly: ["CoilEgressClientsMisconfigured"],
    series: { [condition("EgressFamilyMismatch")]: from(50, 1) },
  },
  {
    name: "a gateway is dead",
    series: { [`up{${GATEWAY}}`]: always(0) },
    fires: { CoilGatewayDown: GATEWAY },
  },
  {
    name: "a gateway is started",
    nearly: ["CoilGatewayDown"],
    series: { [`up{${GATEWAY}}`]: `_x52 0+0x4 ${always(1)}` },
  },
  {
    name: "three nodes have lost a gateway, and say so",
    nearly: ["CoilGatewayLossUnreported"],
    series: {
      [lostGateways]: always(1),
      [lostNodes(LEADER)]: always(3),
      [lostNodes(STANDBY)]: always(3),
    },
    fires: {
      CoilGatewayLost:
        'egress_namespace="internet",egress="nat",gateway="nat-1"',
    },
  },
  {
    name: "a gateway's node restarted",
    nearly: ["CoilGatewayLost"],
    series: {
      [lostGateways]: `0+0x52 1+0x3 ${always(0)}`,
      [lostNodes(LEADER)]: `0+0x52 1+0x3 ${always(0)}`,
    },
  },
  {
    name: "a node has lost a gateway, and cannot say so",
    series: { [lostGateways]: always(1) },
    fires: { CoilGatewayLossUnreported: "" },
  },
  {
    name: "a gateway is doubted now and then",
    series: {
      [`coil_coild_egress_gateways{${COILD},state="doubted"}`]: always(1),
    },
  },
  {
    name: "a node loses a gateway every four minutes",
    series: { [losses]: "0+0.25x70" },
    fires: { CoilGatewaysFlap: 'node="n1"' },
  },
  {
    name: "a node loses a gateway every 40 minutes",
    series: { [losses]: lossEvery(8) },
    intervalMinutes: 5,
    after: 68,
    fires: { CoilGatewaysFlap: 'node="n1"' },
  },
  {
    name: "a node loses a gateway every 80 minutes",
    nearly: ["CoilGatewaysFlap"],
    series: { [losses]: lossEvery(16) },
    intervalMinutes: 5,
    after: 68,
  },
  {
    name:
      "a node lost each of ten gateways, as they were replaced in two hours",
    nearly: ["CoilGatewaysFlap"],
    series: {
      [losses]: `0+0x20 ${
        "0 1 2 3 4 5 6 7 8 9".replaceAll(/\d/g, (n) => `${n}+0x1`)
      } 10+0x40`,
    },
    intervalMinutes: 5,
    after: 68,
  },
  {
    name: "a node lost its four gateways, as they were replaced",
    nearly: ["CoilGatewaysFlap"],
    series: { [losses]: from(50, 4) },
  },
  {
    name: "a gateway's table is nearly full",
    series: {
      [`coil_egress_nf_conntrack_entries_count{${GATEWAY_EGRESS}}`]: always(
        950,
      ),
    },
    fires: { CoilGatewayConnectionsFull: GATEWAY_EGRESS },
  },
  {
    name: "a gateway's table is well used",
    nearly: ["CoilGatewayConnectionsFull"],
    series: {
      [`coil_egress_nf_conntrack_entries_count{${GATEWAY_EGRESS}}`]: always(
        850,
      ),
    },
  },
  {
    name: "a gateway runs out of ports to a destination",
    series: {
      [`coil_egress_snat_ports_used{${GATEWAY_EGRESS},${ports}}`]: always(90),
      [`coil_egress_snat_ports_limit{${GATEWAY_EGRESS},${ports}}`]: always(100),
    },
    fires: { CoilGatewayPortsUsedUp: `${GATEWAY_EGRESS},${ports}` },
  },
  {
    name: "a gateway has enough ports",
    nearly: ["CoilGatewayPortsUsedUp"],
    series: {
      [`coil_egress_snat_ports_used{${GATEWAY_EGRESS},${ports}}`]: always(70),
      [`coil_egress_snat_ports_limit{${GATEWAY_EGRESS},${ports}}`]: always(100),
    },
  },
  {
    name: "a client is at its limit",
    series: {
      [`coil_egress_client_limited{${GATEWAY_EGRESS},${client}}`]: always(1),
    },
    fires: {
      CoilGatewayClientLimited:
        'namespace="internet",egress="nat",client="shop/front"',
    },
  },
  {
    name: "a client was at its limit once, which counts five minutes",
    nearly: ["CoilGatewayClientLimited"],
    series: {
      [`coil_egress_client_limited{${GATEWAY_EGRESS},${client}}`]:
        `0+0x52 1+0x4 ${always(0)}`,
    },
  },
  {
    name: "a pod sends to a gateway whose client it is not",
    series: {
      [`coil_egress_foreign_fou_packets_total{${GATEWAY_EGRESS}}`]: growing(
        600,
      ),
    },
    fires: { CoilGatewayForeignPackets: GATEWAY_EGRESS },
  },
  {
    name: "the first packets of new clients come too soon",
    nearly: ["CoilGatewayForeignPackets"],
    series: {
      [`coil_egress_foreign_fou_packets_total{${GATEWAY_EGRESS}}`]: growing(3),
    },
  },
  {
    name: "two live pods have an address",
    series: { [`coil_egress_shared_addresses{${GATEWAY}}`]: always(1) },
    fires: { CoilGatewaySharedAddresses: GATEWAY },
  },
  {
    name: "an ended pod's address was given to the next",
    nearly: ["CoilGatewaySharedAddresses"],
    series: {
      [`coil_egress_shared_addresses{${GATEWAY}}`]: `0+0x57 1 ${always(0)}`,
    },
  },
  {
    name: "a gateway cannot read its table",
    series: {
      [`coil_egress_reading_failures_total{${GATEWAY},reading="conntrack"}`]:
        growing(6),
    },
    fires: {
      CoilGatewayUnreadable:
        'namespace="internet",pod="nat-1",reading="conntrack"',
    },
  },
  {
    name: "a gateway failed to read its table twice",
    nearly: ["CoilGatewayUnreadable"],
    series: {
      [`coil_egress_reading_failures_total{${GATEWAY},reading="conntrack"}`]:
        from(50, 2),
    },
  },
];
