/**
 * The Container Network Interface, versions 0.3.1 to 1.1.0, as a plugin sees
 * it: environment, configuration, results and errors. No I/O, no packages.
 *
 * Source: https://www.cni.dev/docs/spec/ (SPEC.md at the tags spec-v0.3.1 to
 * spec-v1.1.0) and, where it is silent, the reference implementation's
 * `pkg/skel` and `pkg/types`.
 *
 * @module
 */
export { type AttachmentKey, keyOf, keyText, sameKey } from "./attachment.ts";
export {
  checkCommandVersion,
  type NetConf,
  parseConfig,
  versionForErrors,
} from "./config.ts";
export {
  checkContainerId,
  checkIfname,
  type CniEnv,
  type Command,
  parseArgs,
  parseEnv,
  refusePattern,
} from "./environment.ts";
export { CniError, ErrorCode } from "./errors.ts";
export {
  parseBoolean,
  parseInteger,
  parseList,
  parseObject,
  parseText,
} from "./json.ts";
export { convertResult, parseResult, type Result } from "./result.ts";
export {
  CNI_VERSIONS,
  compareVersions,
  CURRENT_CNI_VERSION,
  versionReply,
} from "./versions.ts";
