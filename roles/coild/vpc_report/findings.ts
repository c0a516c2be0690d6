import { AwsError } from "../../../lib/aws/mod.ts";
import { BlockTimeoutError, OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import type { AddressFinding } from "../base/errors.ts";
import type { FleetView } from "../vpc/fleet_view.ts";
import type { CallTroubles } from "./calls_record.ts";

export interface FindingFacts {
  readonly view: FleetView | undefined;
  readonly troubles: CallTroubles;
  /** The last refusal of EC2, until a call succeeds. */
  readonly lastRefusal: unknown;
}

const WHAT_TO_DO =
  "; delete pods, or use an instance type with more addresses, or raise --max-enis and --eni-limits where they are set";

const FIXED =
  "the node's ENIs have no free address, and coild asks for none with --provision=false; assign some to them";

/** Why a pod got no address of the VPC, and what an admin can do; undefined when the error says it itself. */
export function findingOf(
  error: unknown,
  facts: FindingFacts,
): AddressFinding | undefined {
  const isFixed = facts.view?.unmet?.why === "fixed";
  if (isFixed && isShortage(error)) return { text: FIXED };
  if (error instanceof OutOfBlocksError) {
    return {
      text: `the node's ENIs are full (${error.reason})${WHAT_TO_DO}`,
      event: fullText(facts) + WHAT_TO_DO,
    };
  }
  if (!(error instanceof BlockTimeoutError)) return undefined;
  return { text: delayText(facts) };
}

function isShortage(error: unknown): boolean {
  return error instanceof OutOfBlocksError ||
    error instanceof BlockTimeoutError;
}

function fullText({ view }: FindingFacts): string {
  if (view?.isCordoned) {
    return "the node's ENIs are full, and a cordoned node gets no further ENI";
  }
  const who = view === undefined
    ? ""
    : `: ${view.instance.type} has addresses for ${view.capacity} pods`;
  return `the node's ENIs are full${who}, and the free ones are in cooldown`;
}

/** Why no address came in time: the cause that an admin can remove first. */
function delayText(facts: FindingFacts): string {
  const { view, troubles: { denied, throttled, last }, lastRefusal } = facts;
  const why = view?.unmet?.why;
  if (why === "limit") return fullText(facts) + WHAT_TO_DO;
  if (last === "denied" && denied.length > 0) {
    return `EC2 denied calls; allow ${
      denied.join(", ")
    } in the policy of the node's role`;
  }
  if (why === "subnet") {
    return `subnet ${view?.subnet} of the node's ENIs has no free address left; free some, or move the node to a larger subnet`;
  }
  if (view?.mode === "prefix" && view.refused.includes("prefix")) {
    return `subnet ${view.subnet} of the node's ENIs is fragmented: it has no free range of 16 addresses, and pods get single ones, slowly; reserve a range of it for prefixes`;
  }
  if (last === "throttled" && throttled.length > 0) {
    return `EC2 throttles this account (${
      throttled.join(", ")
    }); coild retries the calls more slowly`;
  }
  if (lastRefusal instanceof AwsError) {
    return `EC2 rejected a call (${lastRefusal.message}); coild retries`;
  }
  return "EC2 has not granted one yet, or the instance metadata do not show it yet; the kubelet will retry";
}
