import { CNI_VERSIONS } from "../cni/mod.ts";
import { VERSION } from "../names/mod.ts";
import { isOwnNetns } from "./netns.ts";
import { type PluginPorts, runPlugin } from "./plugin.ts";
import { readStdin, readVariable, tryWriteStdout } from "./stdio.ts";

/**
 * Answers the runtime that has started this process, and ends it. Without
 * CNI_COMMAND it was called by a user: it prints what it is.
 */
export async function servePlugin(
  { program, more = "", ...outside }:
    & Pick<PluginPorts, "perform" | "defaultSocket">
    & {
      /** The plugin's name. */
      readonly program: string;
      /** What else it prints for a user, with the end of the line. */
      readonly more?: string;
    },
): Promise<never> {
  if (!Deno.env.get("CNI_COMMAND")) {
    const about = `CNI plugin ${program} v${VERSION}
CNI protocol versions supported: ${CNI_VERSIONS.join(", ")}
${more}`;
    Deno.stderr.writeSync(new TextEncoder().encode(about));
    Deno.exit(0);
  }
  const env = readVariable;
  const answer = await runPlugin({ ...outside, env, readStdin, isOwnNetns });
  // At once, without waiting for what the event loop still holds.
  Deno.exit(tryWriteStdout(answer.stdout, { program }) ? answer.exitCode : 1);
}
