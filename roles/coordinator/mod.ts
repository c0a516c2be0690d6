/**
 * The CNI plugin `coordinator`, in a process of its own: one call of a
 * container runtime, from its environment and stdin to stdout and the exit code.
 *
 * @module
 */
import { CNI_VERSIONS } from "../../lib/cni/mod.ts";
import { logOptionsOf, runCoordinator } from "../../lib/coordinator/mod.ts";
import {
  COORDINATOR_COILD_SOCKET,
  coordinatorPlaces,
  VERSION,
} from "../../lib/names/mod.ts";
import {
  isOwnNetns,
  type PluginCall,
  readStdin,
  readVariable,
  runPlugin,
  tryWriteStdout,
} from "../../lib/plugin/mod.ts";
import { CallLog } from "./call_log.ts";
import { outsideOf } from "./outside.ts";

const ABOUT = `CNI plugin coordinator v${VERSION}
CNI protocol versions supported: ${CNI_VERSIONS.join(", ")}
`;

/** Answers the runtime and ends the process. Without CNI_COMMAND it was called by a user. */
export async function main(): Promise<void> {
  if (!Deno.env.get("CNI_COMMAND")) {
    Deno.stderr.writeSync(new TextEncoder().encode(ABOUT));
    Deno.exit(0);
  }
  const { stdout, exitCode } = await runPlugin({
    env: readVariable,
    readStdin,
    perform: async (call) => ({ stdout: await perform(call), exitCode: 0 }),
    isOwnNetns,
    defaultSocket: COORDINATOR_COILD_SOCKET,
  });
  Deno.exit(tryWriteStdout(stdout, { program: "coordinator" }) ? exitCode : 1);
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
