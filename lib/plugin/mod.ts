/**
 * What the CNI plugin does with one call of a container runtime, wherever that
 * is done: in a process of its own (`roles/coil`), or in coild for the launcher
 * that a runtime calls (`deploy/executable/elf/launcher.c`).
 *
 * @module
 */
export { isOwnNetns } from "./netns.ts";
export { type Answer, type Outside, runPlugin } from "./plugin.ts";
