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
  parseResult,
  versionForErrors,
  versionReply,
} from "../cni/mod.ts";
import {
  type CniArgs,
  decodeAddResponse,
  encodeCniArgs,
  type MethodName,
  methodPath,
} from "../cnirpc/lean/mod.ts";
import { type callUnary, GrpcError, StatusCode } from "../grpc/mod.ts";
import { toCniError } from "./errors.ts";
import { buildRequest } from "./request.ts";

/** What the plugin needs of the outside. */
export interface Outside {
  readonly env: (name: string) => string | undefined;
  /** Called once, and not for VERSION. */
  readonly readStdin: () => Uint8Array;
  readonly call: typeof callUnary;
  /** Whether a path is the network namespace that the runtime is in. */
  readonly isOwnNetns: (path: string) => boolean;
  /** Where coild listens unless the configuration says otherwise. */
  readonly defaultSocket: string;
}

/** What the runtime gets. */
export interface Answer {
  readonly stdout: string;
  readonly exitCode: 0 | 1;
}

/** Does what `CNI_COMMAND` says. Never throws: errors are answers. */
export async function runPlugin(outside: Outside): Promise<Answer> {
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
    const result = await perform({ env, conf, request }, outside);
    return { stdout: result === undefined ? "" : toJson(result), exitCode: 0 };
  } catch (error) {
    const cniError = toCniError(error, command);
    return { stdout: toJson(cniError.toJson(version)), exitCode: 1 };
  }
}

/** Four spaces and no newline at the end, as the reference implementation. */
function toJson(value: unknown): string {
  return JSON.stringify(value, undefined, 4);
}

function readAll(outside: Outside): Uint8Array {
  try {
    return outside.readStdin();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CniError(`error reading from stdin: ${reason}`, {
      code: ErrorCode.IO_FAILURE,
      cause,
    });
  }
}

interface Call {
  readonly env: CniEnv;
  readonly conf: NetConf;
  readonly request: CniArgs;
}

/** Makes the call to coild; the result to print, if any. */
async function perform(call: Call, outside: Outside): Promise<unknown> {
  switch (call.env.command) {
    case "ADD":
      return await add(call, outside);
    case "DEL":
      await ask("Del", call, outside);
      // As the reference implementation: said when everything is released.
      checkNetns(call.env, outside);
      return undefined;
    case "CHECK":
      requirePrevResult(call.conf);
      await ask("Check", call, outside);
      return undefined;
    case "GC":
      await ask("Gc", call, outside);
      return undefined;
    default:
      await askStatus(call, outside);
      return undefined;
  }
}

async function add(call: Call, outside: Outside): Promise<unknown> {
  const { env, conf } = call;
  checkNetns(env, outside);
  const response = await ask("Add", call, outside);
  if (conf.prevResult) return convertResult(conf.prevResult, conf.cniVersion);
  const result: unknown = JSON.parse(decodeAddResponse(response));
  return convertResult(parseResult(result, "result"), conf.cniVersion);
}

async function ask(
  method: MethodName,
  { conf, request }: Call,
  outside: Outside,
): Promise<Uint8Array> {
  return await outside.call({
    socketPath: conf.socket ?? outside.defaultSocket,
    method: methodPath(method),
    message: encodeCniArgs(request),
  });
}

/** A coild that does not know the method is there, which is the answer. */
async function askStatus(call: Call, outside: Outside): Promise<void> {
  try {
    await ask("Status", call, outside);
  } catch (error) {
    const isUnknown = error instanceof GrpcError &&
      error.code === StatusCode.UNIMPLEMENTED;
    if (!isUnknown) throw error;
  }
}

function checkNetns(env: CniEnv, outside: Outside): void {
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
