/**
 * Pods' addresses from the VPC itself: which ENIs, addresses and prefixes a node should have, decided purely from what
 * EC2 and the instance metadata service show; and the kernel's half of it.
 *
 * @module
 */
export {
  blocksOf,
  type EniBlock,
  grantEni,
  grantName,
  type GrantNumbers,
  grantOf,
  NO_GRANTS,
  numberGrants,
  prefixesOf,
} from "./fleet/blocks.ts";
export {
  type Action,
  type EniCall,
  type EniOutcome,
  isBehind,
  isSettled,
  type RefusalReason,
  unforgotten,
  withAnswers,
} from "./fleet/calls.ts";
export {
  type BlockKind,
  type Ec2Eni,
  type Eni,
  type Grant,
  type ImdsEni,
  mergeEnis,
  type Ownership,
  PODS6_CAPACITY,
} from "./fleet/eni.ts";
export {
  type BlockUse,
  doubtfulBlocks,
  type Situation,
} from "./fleet/fleet.ts";
export { capacityOf, type Limits, narrowLimits } from "./fleet/limits.ts";
export { learn, type Pace, refusedKinds } from "./fleet/pace.ts";
export { type Plan, plan } from "./fleet/plan.ts";
export { checkTargets, type Goal } from "./fleet/targets.ts";
export { VpcHost, type VpcHostReport } from "./host/host_apply.ts";
export type { HostEni, VpcHostSettings } from "./host/host_settings.ts";
export { VpcHostProblem } from "./host/host_problem.ts";
export { RestTable } from "./host/rest_table.ts";
