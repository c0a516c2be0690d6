import { BlockTimeoutError, OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import type { VpcFleet } from "./fleet.ts";

/** Why a pod got no address of the VPC, and what an admin can do; undefined when the error says it itself. */
export function findingOf(
  error: unknown,
  { unmet, lastRefusal }: Pick<VpcFleet, "unmet" | "lastRefusal">,
): string | undefined {
  const isFixed = unmet?.why === "fixed";
  if (isFixed && isShortage(error)) {
    return "the node's ENIs have no free address, and coild asks for none with --provision=false; assign some to them";
  }
  if (error instanceof OutOfBlocksError) {
    return `the node's ENIs are full (${error.reason}); delete pods, or use an instance type with more addresses`;
  }
  if (!(error instanceof BlockTimeoutError)) return undefined;
  if (unmet?.why === "limit") {
    return "the node's ENIs are full; delete pods, or use an instance type with more addresses";
  }
  const refusal = lastRefusal instanceof Error
    ? lastRefusal.message
    : undefined;
  if (unmet?.why === "subnet") {
    return `the subnet of the node's ENIs has no free addresses (${refusal}); free some, or move the node to another subnet`;
  }
  return refusal === undefined
    ? "EC2 has not granted one yet, or the instance metadata do not show it yet; the kubelet tries again"
    : `EC2 refused a call (${refusal}); it is made again`;
}

function isShortage(error: unknown): boolean {
  return error instanceof OutOfBlocksError ||
    error instanceof BlockTimeoutError;
}
