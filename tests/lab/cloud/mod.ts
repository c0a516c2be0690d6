/** EC2's query API and the metadata service as one real process, with faults on request. */
export type { Call } from "./calls.ts";
export { Cloud } from "./cloud.ts";
export type { CloudConfig } from "./config.ts";
