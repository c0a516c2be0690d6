/** EC2's query API and the metadata service as one real process, with faults on request. */
export type { Call } from "./calls.ts";
export { Cloud } from "./cloud.ts";
export type {
  AccountCredentials,
  CloudConfig,
  FabricConfig,
  HostConfig,
  InstanceConfig,
  Pace,
  Policy,
  SubnetConfig,
  VpcConfig,
} from "./config.ts";
export type { Commands, Endpoints } from "./control.ts";
export type { Fault, FaultKind } from "./faults.ts";
