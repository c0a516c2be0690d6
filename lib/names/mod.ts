/**
 * The names and numbers that Coil shares with the outside: API group, labels,
 * annotations, route tables, ports. They are upstream Coil v2's, so that
 * manifests, dashboards and routing daemons made for it keep working.
 *
 * @module
 */
export { compareText } from "./compare.ts";
export * from "./enis.ts";
export * from "./kernel.ts";
export * from "./kubernetes.ts";
export * from "./namespaced_name.ts";
export * from "./processes.ts";
export * from "./version.ts";
