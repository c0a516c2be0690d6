import type { PluginAnswer } from "../cnirpc/plugin/mod.ts";
import {
  checkCommandVersion,
  type CniEnv,
  CniError,
  type Command,
  convertResult,
  CURRENT_CNI_VERSION,
  ErrorCode,
  type NetConf,
  parseConfig,
  parseEnv,
  type Result,
  versionForErrors,
  versionReply,
} from "../cni/mod.ts";
import { messageOf } from "../errors/mod.ts";
import { toCniError } from "./errors.ts";
import { buildRequest, type CniRequest } from "./request.ts";

/** Environment of the plugin. */
export interface PluginPorts {
  readonly env: (name: string) => string | undefined;
  /** Called once, and not for VERSION. */
  readonly readStdin: () => Uint8Array;
  /** Takes a call to coild; not called for VERSION, and for what is refused before. */
  readonly perform: (call: PluginCall) => Promise<PluginAnswer>;
  /** Whether a path is the network namespace that the runtime is in. */
  readonly isOwnNetns: (path: string) => boolean;
  /** Where coild listens unless the configuration says otherwise. */
  readonly defaultSocket: string;
}

/** A call of a runtime, read and checked. */
export interface PluginCall {
  readonly command: Exclude<Command, "VERSION">;
  readonly conf: NetConf;
  /** Where the configuration says that coild listens. */
  readonly socketPath: string;
  readonly request: CniRequest;
}

/** Does what `CNI_COMMAND` says. Never throws: errors are answers. */
export async function runPlugin(outside: PluginPorts): Promise<PluginAnswer> {
  let version = CURRENT_CNI_VERSION;
  let command: Command = "VERSION";
  try {
    const env = parseEnv(outside.env);
    command = env.command;
    if (command === "VERSION") {
      return { stdout: `${versionReply()}\n`, exitCode: 0 };
    }
    const stdinData = readAll(outside);
    const stdinText = new TextDecoder().decode(stdinData);
    version = versionForErrors(stdinText) ?? CURRENT_CNI_VERSION;
    const conf = parseConfig(stdinText, { lenient: command === "DEL" });
    checkCommandVersion(command, conf.cniVersion);
    const request = buildRequest(env, conf, stdinData);
    if (command === "ADD") checkNetns(env, outside);
    if (command === "CHECK") requirePrevResult(conf);
    const socketPath = conf.socket ?? outside.defaultSocket;
    const answer = await outside.perform({
      command,
      conf,
      socketPath,
      request,
    });
    // As the reference implementation: said when everything is released.
    if (command === "DEL" && answer.exitCode === 0) checkNetns(env, outside);
    return answer;
  } catch (error) {
    const cniError = toCniError(error, command);
    return { stdout: toJson(cniError.toJson(version)), exitCode: 1 };
  }
}

/** What the runtime gets for what coild gave, which is a result for ADD only. @throws {CniError} with code 1 when the configuration's version is not supported */
export function answerWith(
  { conf }: PluginCall,
  given: Result | undefined,
): PluginAnswer {
  if (given === undefined) return { stdout: "", exitCode: 0 };
  // In a chain the result is that of the plugins before.
  const result = convertResult(conf.prevResult ?? given, conf.cniVersion);
  return { stdout: toJson(result), exitCode: 0 };
}

/** Four spaces and no newline at the end, as the reference implementation. */
function toJson(value: unknown): string {
  return JSON.stringify(value, undefined, 4);
}

function readAll(outside: PluginPorts): Uint8Array {
  try {
    return outside.readStdin();
  } catch (cause) {
    if (cause instanceof CniError) throw cause;
    throw new CniError(`error reading from stdin: ${messageOf(cause)}`, {
      code: ErrorCode.IO_FAILURE,
      cause,
    });
  }
}

function checkNetns(env: CniEnv, outside: PluginPorts): void {
  if (env.netnsOverride || env.netns === "") return;
  if (!outside.isOwnNetns(env.netns)) return;
  throw new CniError(
    "plugin's netns and netns from CNI_NETNS should not be the same",
    { code: ErrorCode.INVALID_NETNS, details: env.netns },
  );
}

function requirePrevResult(conf: NetConf): void {
  if (conf.prevResult !== undefined) return;
  throw new CniError("missing prevResult", {
    code: ErrorCode.INVALID_NETWORK_CONFIG,
    details: "CHECK compares the pod's network with the result of ADD",
  });
}
