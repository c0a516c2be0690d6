/**
 * Pods' addresses from the VPC itself: which ENIs, addresses and prefixes a node should have, decided purely from what
 * EC2 and the instance metadata service show; and the kernel's half of it.
 *
 * @module
 */
export {
  type BlockOptions,
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
  type Call,
  isSettled,
  type Outcome,
  type Refusal,
  withAnswers,
} from "./fleet/calls.ts";
export {
  type BlockKind,
  type Ec2Eni,
  type Eni,
  type EniAttachment,
  type Grant,
  type ImdsEni,
  mergeEnis,
  type Ownership,
} from "./fleet/eni.ts";
export {
  type BlockUse,
  doubtfulBlocks,
  type Situation,
} from "./fleet/fleet.ts";
export type { Unmet } from "./fleet/grow.ts";
export {
  capacityOf,
  type LimitOptions,
  type Limits,
  narrowLimits,
} from "./fleet/limits.ts";
export { learn, type Pace, type Pause, refusedKinds } from "./fleet/pace.ts";
export { type Plan, plan } from "./fleet/plan.ts";
export {
  checkTargets,
  type FreeRange,
  type Goal,
  type Targets,
} from "./fleet/targets.ts";
export {
  VpcHost,
  type VpcHostOptions,
  type VpcHostReport,
} from "./host/host_apply.ts";
export type { HostEni, VpcHostSettings } from "./host/host_settings.ts";
export { VpcHostProblem } from "./host/host_problem.ts";
export { RestTable, type RestTableOptions } from "./host/rest_table.ts";
