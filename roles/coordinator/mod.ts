/**
 * The CNI plugin `coordinator`, in a process of its own: one call of a
 * container runtime, from its environment and stdin to stdout and the exit code.
 *
 * @module
 */
import { CNI_VERSIONS } from "../../lib/cni/mod.ts";
import { runCoordinator } from "../../lib/coordinator/mod.ts";
import {
  COORDINATOR_DIRECTORY,
  coordinatorPlaces,
  VERSION,
} from "../../lib/names/mod.ts";
import {
  isOwnNetns,
  readStdin,
  readVariable,
  runPlugin,
  tryWriteStdout,
} from "../../lib/plugin/mod.ts";
import { outsideOf } from "./outside.ts";

const ABOUT = `CNI plugin coordinator v${VERSION}
CNI protocol versions supported: ${CNI_VERSIONS.join(", ")}
`;

/** Only its directory counts. */
const DEFAULT_SOCKET = `${COORDINATOR_DIRECTORY}/coild.sock`;

/** Answers the runtime and ends the process. Without CNI_COMMAND it was called by a person. */
export async function main(): Promise<void> {
  if (!Deno.env.get("CNI_COMMAND")) {
    Deno.stderr.writeSync(new TextEncoder().encode(ABOUT));
    Deno.exit(0);
  }
  const { stdout, exitCode } = await runPlugin({
    env: readVariable,
    readStdin,
    perform: async (call) => {
      const outside = outsideOf(coordinatorPlaces(call.socketPath));
      return { stdout: await runCoordinator(outside, call), exitCode: 0 };
    },
    isOwnNetns,
    defaultSocket: DEFAULT_SOCKET,
  });
  Deno.exit(tryWriteStdout(stdout, { program: "coordinator" }) ? exitCode : 1);
}
