/**
 * Pods with addresses of their VPC on EC2.
 *
 * @module
 */
export {
  VpcHost,
  type VpcHostOptions,
  type VpcHostReport,
} from "./host/host_apply.ts";
export type { HostEni, VpcHostSettings } from "./host/host_settings.ts";
export { VpcHostProblem } from "./host/host_problem.ts";
export { RestTable, type RestTableOptions } from "./host/rest_table.ts";
