/**
 * The CNI plugin `coordinator`, in a process of its own: one call of a
 * container runtime, from its environment and stdin to stdout and the exit code.
 *
 * @module
 */
import { logOptionsOf, runCoordinator } from "../../lib/coordinator/mod.ts";
import {
  COORDINATOR_COILD_SOCKET,
  coordinatorPlaces,
} from "../../lib/names/mod.ts";
import { type PluginCall, servePlugin } from "../../lib/plugin/mod.ts";
import { CallLog } from "./call_log.ts";
import { outsideOf } from "./outside.ts";

/** Answers the runtime and ends the process. */
export async function main(): Promise<void> {
  await servePlugin({
    program: "coordinator",
    perform: async (call) => ({ stdout: await perform(call), exitCode: 0 }),
    defaultSocket: COORDINATOR_COILD_SOCKET,
  });
}

async function perform(call: PluginCall): Promise<string> {
  const { containerId, ifname: iface, args } = call.request;
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: pod } = args;
  const log = new CallLog({
    ...logOptionsOf(call.conf),
    fields: { command: call.command, containerId, iface, namespace, pod },
  });
  const outside = outsideOf({
    ...coordinatorPlaces(call.socketPath),
    warn: (message, fields) => log.warn(message, fields),
  });
  try {
    const stdout = await runCoordinator(outside, call);
    log.ended();
    return stdout;
  } catch (error) {
    log.ended(error);
    throw error;
  }
}
