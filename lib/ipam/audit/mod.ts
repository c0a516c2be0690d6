/**
 * What of pods, blocks, pools and a node's addresses does not fit together: `coil ipam check`, and what daemons look for.
 *
 * @module
 */
export { blockFinder, poolFinder, readableBlocks } from "./block_index.ts";
export {
  type Books,
  type Finding,
  type FindingCode,
  findingsOf,
  type Reference,
} from "./findings.ts";
export { lastingFindings, lookTwice } from "./look_twice.ts";
export {
  MIN_AGE_MS,
  type NodeFinding,
  type NodeFindingCode,
  nodeFindings,
} from "./node_findings.ts";
export type { Problem } from "./problem.ts";
export { requestProblem } from "./request_problem.ts";
export {
  type AddressRow,
  addressRows,
  type AddressState,
  type BlockRow,
  blockRows,
  definedOnly,
  labelOf,
  type PodAddresses,
} from "./rows.ts";
