/**
 * The CNI plugin: one call of a container runtime, from its environment and
 * stdin to stdout and the exit code. All work is coild's.
 *
 * @module
 */
import { callUnary } from "../../lib/grpc/mod.ts";
import { COILD_SOCKET } from "../../lib/names/mod.ts";
import { isOwnNetns } from "./netns.ts";
import { runPlugin } from "./plugin.ts";
import { readStdin, writeStdout } from "./stdio.ts";

/** Answers the runtime and ends the process. */
export async function main(): Promise<void> {
  const { stdout, exitCode } = await runPlugin({
    env: (name) => Deno.env.get(name),
    readStdin,
    call: callUnary,
    isOwnNetns,
    defaultSocket: COILD_SOCKET,
  });
  writeStdout(stdout);
  // At once, without waiting for what the event loop still holds.
  Deno.exit(exitCode);
}
