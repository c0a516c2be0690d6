import { CniError } from "../../../lib/cni/mod.ts";
import {
  type PluginAnswer,
  SOCKET_VARIABLE,
} from "../../../lib/cnirpc/plugin/mod.ts";
import { answerWith, type PluginCall } from "../../../lib/plugin/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { CallError } from "../base/errors.ts";
import type { CniCalls } from "../service/cni_calls.ts";
import type { MethodName } from "../service/method_names.ts";
import type { Caller, PluginServerOptions } from "./plugin_server.ts";

const log = getLogger("plugin");

/** How long a runtime waits at most. */
const CALL_TIMEOUT_MS = 60_000;

const METHODS: Readonly<Record<PluginCall["command"], MethodName>> = {
  ADD: "Add",
  DEL: "Del",
  CHECK: "Check",
  GC: "Gc",
  STATUS: "Status",
};

/** Makes the calls of the plugin `coil` that are for the coild at a socket. */
export function coilPlugin(
  { calls, socketPath }: {
    readonly calls: Pick<CniCalls, "call">;
    readonly socketPath: string;
  },
): PluginServerOptions["perform"] {
  let hasWarned = false;
  return async (call, caller) => {
    if (isHere(call, caller, socketPath)) {
      return await perform(calls, call, caller);
    }
    // Logged once: it costs only the start of an executable for each pod.
    if (!hasWarned) {
      log.warn(
        "CNI configuration and coild use different sockets, so a process of the plugin makes the call, which takes longer; use one path in both",
        { configured: call.socketPath, socket: socketPath },
      );
    }
    hasWarned = true;
    return undefined;
  };
}

/** Whether the network configuration names this coild: the front does not read it, the whole program does. */
function isHere(call: PluginCall, { env }: Caller, socket: string): boolean {
  return call.socketPath === socket || env.has(SOCKET_VARIABLE);
}

async function perform(
  calls: Pick<CniCalls, "call">,
  call: PluginCall,
  { signal }: Caller,
): Promise<PluginAnswer> {
  try {
    const result = await calls.call({
      method: METHODS[call.command],
      read: () => call.request,
      signal,
      remainingMs: CALL_TIMEOUT_MS,
    });
    return answerWith(call, result);
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    const { message, code, details } = error;
    throw new CniError(message, { code, details, cause: error });
  }
}
