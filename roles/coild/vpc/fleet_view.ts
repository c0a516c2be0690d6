import type { Family } from "../../../lib/inet/mod.ts";
import {
  type BlockKind,
  capacityOf,
  type Eni,
  type Goal,
  type Pace,
  type Plan,
  PODS6_CAPACITY,
  refusedKinds,
} from "../../../lib/vpc/mod.ts";
import type { Instance } from "../cloud/sight.ts";

/** State of the node's ENIs, for people. */
export interface FleetView {
  readonly instance: Instance;
  /** What EC2 is asked for. */
  readonly mode: BlockKind;
  /** How many ENIs there can be. */
  readonly maxEnis: number;
  /** How many pods there is room for. */
  readonly capacity: number;
  /** Those that give addresses, lowest device first; none until both EC2 and the metadata service have shown them. */
  readonly enis: readonly Eni[];
  /** The subnet of new ENIs: the primary's. */
  readonly subnet: string;
  /** What the last plan could not get, and why. */
  readonly unmet: Plan["unmet"];
  /** Whether the node gets no new ENIs, because it is cordoned. */
  readonly isCordoned: boolean;
  /** Kinds of blocks that the subnet had none of when it was last asked. */
  readonly refused: readonly BlockKind[];
}

/** Whether pods can get addresses of the ENI. */
export function givesAddresses({ device, ec2 }: Eni): boolean {
  return device !== undefined && ec2?.ownership !== "foreign";
}

/** Makes the view of what a fleet knows. */
export function fleetViewOf(
  { goal: { limits, targets }, enis, families, pace, now, ...rest }:
    & Pick<FleetView, "instance" | "unmet" | "isCordoned">
    & {
      readonly goal: Goal;
      readonly enis: readonly Eni[];
      readonly families: readonly Family[];
      readonly pace: Pace;
      readonly now: number;
    },
): FleetView {
  const primary = enis.find(({ ec2 }) => ec2?.ownership === "primary");
  const subnet = primary?.ec2?.subnet ?? "";
  return {
    ...rest,
    mode: targets.kind,
    maxEnis: limits.enis,
    capacity: families.includes("ipv4")
      ? capacityOf(limits, targets.kind)
      : PODS6_CAPACITY,
    enis: enis.filter(givesAddresses),
    subnet,
    refused: refusedKinds(pace, subnet, { now }),
  };
}
