/**
 * A node with two ENIs, for the tests of this room.
 *
 * @module
 */
import { type Attempt, AwsError } from "../../../lib/aws/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { AllocationRecord, BlockRecord } from "../../../lib/ipam/mod.ts";
import type { Eni } from "../../../lib/vpc/mod.ts";
import type { FleetView } from "../vpc/fleet_view.ts";
import type { InspectionFacts } from "./inspection.ts";

/** An ENI that EC2 and the metadata service show. */
export function eniOf(id: string, device: number, blocks: string[]): Eni {
  return {
    id,
    device,
    inImds: true,
    ec2: {
      id,
      subnet: "subnet-1",
      ownership: device === 0 ? "primary" : "owned",
      address: Address.parse("10.0.1.4"),
      blocks: [],
    },
    grants: blocks.map((text) => ({
      block: Prefix.parse(text),
      inEc2: true,
      inImds: true,
    })),
  };
}

/** A block of an ENI, as address management has it. */
export function recordOf(
  [eni, block]: readonly [string, string],
  counts: Partial<BlockRecord>,
): BlockRecord {
  const name = `${eni}/${block}`;
  const ipv4 = Prefix.parse(block);
  return {
    name,
    pool: "vpc",
    uid: name,
    index: 0,
    holds: [],
    prefixes: { ipv4 },
    size: Number(ipv4.size),
    held: 0,
    cooling: 0,
    free: 0,
    ...counts,
  };
}

export const VIEW: FleetView = {
  instance: { id: "i-1", type: "t3.small", region: "xx-1" },
  mode: "address",
  maxEnis: 3,
  capacity: 9,
  enis: [
    eniOf("eni-1", 0, ["10.0.1.5/32", "10.0.1.6/32"]),
    eniOf("eni-10", 1, ["10.0.1.16/28"]),
  ],
  subnet: "subnet-1",
  unmet: undefined,
  isCordoned: false,
  refused: [],
};

/** Of {@linkcode VIEW}: one address in use, one that rests, and a prefix with one in use. */
export const RECORDS: readonly BlockRecord[] = [
  recordOf(["eni-1", "10.0.1.5/32"], { held: 1 }),
  recordOf(["eni-1", "10.0.1.6/32"], { cooling: 1 }),
  recordOf(["eni-10", "10.0.1.16/28"], { held: 1, free: 15 }),
];

const ALLOCATION: AllocationRecord = {
  containerId: "c1",
  ifname: "eth0",
  pool: "vpc",
  state: "used",
  addresses: { ipv4: Address.parse("10.0.1.17") },
  generation: 1,
  ageMs: 60_000,
};

/** The same for programs on the node. */
export const FACTS: InspectionFacts = {
  view: VIEW,
  records: RECORDS,
  allocations: [
    ALLOCATION,
    {
      ...ALLOCATION,
      containerId: "c2",
      ageMs: 3_600_000,
      addresses: { ipv4: Address.parse("10.0.1.5") },
    },
  ],
  resting: [
    { address: Address.parse("10.0.1.6"), restedMs: 10_000 },
    // It was given again a moment ago.
    { address: Address.parse("10.0.1.5"), restedMs: 40_000 },
  ],
  podOf: (address) =>
    String(address) === "10.0.1.5"
      ? { namespace: "default", name: "p1" }
      : undefined,
  now: new Date("2026-06-01T12:00:00.5Z"),
};

/** A request that ended with "success", without an answer ("none"), or with EC2's code. */
export function attemptOf(call: string, result: string): Attempt {
  const isCode = !["success", "none"].includes(result);
  const refusal = isCode
    ? new AwsError({
      call,
      code: result,
      peer: "EC2",
      service: "ec2",
      reason: "because",
      status: 400,
    })
    : undefined;
  return { call, result, refusal, durationMs: 1 };
}
