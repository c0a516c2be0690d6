/**
 * What of pods, blocks, pools and a node's addresses does not fit together: `coil ipam check`, and what daemons look for.
 *
 * @module
 */
export { blockFinder, poolFinder, readableBlocks } from "./block_index.ts";
export {
  ADDRESS_FINDING_CODES,
  type AddressFindingCode,
  addressFindings,
  type Books,
  type Finding,
  type FindingCode,
  findingsOf,
  type Reference,
} from "./findings.ts";
export {
  type AuditOptions,
  countFindings,
  findingsText,
  runAudits,
} from "./auditor.ts";
export { type AnyFinding, lastingFindings, lookTwice } from "./look_twice.ts";
export {
  MIN_AGE_MS,
  NODE_FINDING_CODES,
  type NodeFinding,
  type NodeFindingCode,
  nodeFindings,
} from "./node_findings.ts";
export { addressesByFamily } from "./pod.ts";
export type { Problem } from "./problem.ts";
export { requestProblem } from "./request_problem.ts";
export {
  type AddressRow,
  addressRows,
  type AddressVerdict,
  type BlockRow,
  blockRows,
  definedOnly,
  labelOf,
  type PodAddresses,
} from "./rows.ts";
