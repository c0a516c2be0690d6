/**
 * Pods' network namespaces, without the rest of the unit, for programs that
 * have to start fast.
 *
 * @module
 */
export { NetnsIndex } from "./netns_index.ts";
export { tryOpenPodNetns } from "./pod_netns.ts";
