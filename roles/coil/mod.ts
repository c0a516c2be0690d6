/**
 * The CNI plugin: one call of a container runtime, from its environment and
 * stdin to stdout and the exit code. All work is coild's, or upstream's coild's
 * while a node changes from one to the other.
 *
 * @module
 */
import type { PluginAnswer } from "../../lib/cnirpc/plugin/mod.ts";
import { COILD_SOCKET } from "../../lib/names/mod.ts";
import { type PluginCall, servePlugin } from "../../lib/plugin/mod.ts";
import { askCoild } from "./ask.ts";

/** Answers the runtime and ends the process. */
export async function main(): Promise<void> {
  await servePlugin({
    program: "coil",
    more: '"coil --help" lists the commands for administrators\n',
    perform,
    defaultSocket: COILD_SOCKET,
  });
}

async function perform(call: PluginCall): Promise<PluginAnswer> {
  const { socketPath, request } = call;
  const env = Deno.env.toObject();
  const question = { socketPath, env, stdin: request.stdinData };
  const answer = await askCoild(question);
  if (answer !== undefined) return answer;
  // Loaded beside upstream's coild only.
  const { askByGrpc } = await import("./grpc.ts");
  return await askByGrpc(call);
}
