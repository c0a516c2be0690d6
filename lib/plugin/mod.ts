/**
 * What the CNI plugin does with one call of a container runtime, wherever that
 * is done: in coild for the front of the executable that a runtime calls
 * (`deploy/executable/elf/front.c`), or in a process of its own (`roles/coil`),
 * which asks coild by the same messages.
 *
 * @module
 */
export { NoAnswerError } from "./errors.ts";
export { isOwnNetns } from "./netns.ts";
export {
  answerWith,
  type PluginCall,
  type PluginPorts,
  runPlugin,
} from "./plugin.ts";
export { servePlugin } from "./process.ts";
export { type CniRequest } from "./request.ts";
