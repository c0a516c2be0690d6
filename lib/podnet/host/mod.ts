/**
 * The host's end of a pod's link, without the rest of the unit, for programs
 * that have to start fast.
 *
 * @module
 */
export { findHostEnd } from "./host_end.ts";
