/**
 * Pods' network namespaces, without the rest of the unit, for programs that
 * have to start fast.
 *
 * @module
 */
export { NetnsNotFoundError } from "../base/errors.ts";
export { NetnsIndex } from "./netns_index.ts";
export { openPodNetns } from "./pod_netns.ts";
