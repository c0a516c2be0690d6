// Faults of nodes whose pods have addresses of the VPC, and what looks like them.
import {
  always,
  COILD_2,
  from,
  growing,
  type SeriesValues,
  type Situation,
} from "./healthy.ts";

const NODE = 'node="n2"';
const free = `coil_vpc_addresses{${COILD_2},state="free"}`;
const requests = (call: string, result: string) =>
  `coil_vpc_api_requests_total{${COILD_2},call="${call}",result="${result}"}`;
const adds = (code: string) =>
  `grpc_server_handled_total{${COILD_2},grpc_method="Add",grpc_code="${code}"}`;
const assign = (result: string) => requests("AssignPrivateIpAddresses", result);
const describe = (result: string) =>
  requests("DescribeNetworkInterfaces", result);
/** As a healthy node makes them all the time. */
const looks = describe("success");
const EMPTY = "InsufficientFreeAddressesInSubnet";
const FRAGMENTED = "InsufficientCidrBlocks";

const full: SeriesValues = {
  [free]: always(0),
  [adds("ResourceExhausted")]: growing(1),
};

/** What happens to nodes with addresses of the VPC. */
export const VPC: readonly Situation[] = [
  {
    name: "a node's ENIs are full, and more pods come",
    series: full,
    fires: { CoilVpcNoAddress: NODE },
  },
  {
    name: "a node's ENIs are full, and no pod comes",
    nearly: ["CoilVpcNoAddress"],
    series: { [free]: always(0) },
  },
  {
    name: "pods are refused for a moment although addresses are free",
    nearly: ["CoilVpcNoAddress"],
    series: { [adds("ResourceExhausted")]: growing(1) },
  },
  {
    name: "a subnet is empty",
    series: { [assign(EMPTY)]: growing(1) },
    fires: { CoilVpcSubnetExhausted: `result="${EMPTY}"` },
  },
  {
    name: "a subnet is fragmented",
    series: { [assign(FRAGMENTED)]: growing(1) },
    fires: { CoilVpcSubnetExhausted: `result="${FRAGMENTED}"` },
  },
  {
    name: "a subnet was empty for a moment",
    nearly: ["CoilVpcSubnetExhausted"],
    series: { [assign(EMPTY)]: from(50, 1) },
  },
  {
    name: "a right is missing",
    series: { [requests("CreateTags", "UnauthorizedOperation")]: growing(1) },
    fires: { CoilVpcPermissionMissing: `${NODE},call="CreateTags"` },
  },
  {
    name: "a right was missing until a minute ago",
    nearly: ["CoilVpcPermissionMissing"],
    series: {
      [requests("CreateTags", "UnauthorizedOperation")]: from(58, 3),
    },
  },
  {
    name: "a node's keys are no longer good",
    series: { [looks]: always(9), [describe("AuthFailure")]: growing(1) },
    fires: { CoilVpcCallsFail: NODE },
  },
  {
    name: "EC2 cannot be reached",
    series: { [looks]: always(9), [describe("none")]: growing(1) },
    fires: { CoilVpcCallsFail: NODE },
  },
  {
    name: "some requests have no answer",
    nearly: ["CoilVpcCallsFail"],
    series: { [describe("none")]: growing(1) },
  },
  {
    name: "a node makes no requests",
    nearly: ["CoilVpcCallsFail"],
    series: { [looks]: always(9) },
  },
  {
    name: "the account is throttled",
    series: { [assign("RequestLimitExceeded")]: growing(1) },
    fires: { CoilVpcThrottled: "" },
  },
  {
    name: "some requests were throttled",
    nearly: ["CoilVpcThrottled"],
    series: { [assign("RequestLimitExceeded")]: from(50, 9) },
  },
];
