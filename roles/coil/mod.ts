/**
 * The CNI plugin: one call of a container runtime, from its environment and
 * stdin to stdout and the exit code. All work is coild's, or upstream's coild's
 * while a node changes from one to the other.
 *
 * @module
 */
import { CNI_VERSIONS } from "../../lib/cni/mod.ts";
import { COILD_SOCKET, VERSION } from "../../lib/names/mod.ts";
import {
  type Answer,
  isOwnNetns,
  type PluginCall,
  readStdin,
  readVariable,
  runPlugin,
  tryWriteStdout,
} from "../../lib/plugin/mod.ts";
import { askCoild } from "./ask.ts";

const ABOUT = `CNI plugin coil v${VERSION}
CNI protocol versions supported: ${CNI_VERSIONS.join(", ")}
"coil --help" lists the commands for administrators
`;

/**
 * Answers the runtime and ends the process. Without CNI_COMMAND it was called
 * by a user: it prints what it is.
 */
export async function main(): Promise<void> {
  if (!Deno.env.get("CNI_COMMAND")) {
    Deno.stderr.writeSync(new TextEncoder().encode(ABOUT));
    Deno.exit(0);
  }
  const { stdout, exitCode } = await runPlugin({
    env: readVariable,
    readStdin,
    perform,
    isOwnNetns,
    defaultSocket: COILD_SOCKET,
  });
  // At once, without waiting for what the event loop still holds.
  Deno.exit(tryWriteStdout(stdout, { program: "coil" }) ? exitCode : 1);
}

async function perform(call: PluginCall): Promise<Answer> {
  const { socketPath, request } = call;
  const env = Deno.env.toObject();
  const question = { socketPath, env, stdin: request.stdinData };
  const answer = await askCoild(question);
  if (answer !== undefined) return answer;
  // Loaded beside upstream's coild only.
  const { askByGrpc } = await import("./grpc.ts");
  return await askByGrpc(call);
}
