/**
 * What `coil connectivity test` and the probes that it runs on nodes say to each
 * other: questions, outcomes, and facts of a node. Nothing here does I/O.
 *
 * @module
 */
export * from "./facts.ts";
export * from "./questions.ts";
