import type { Log } from "../build.ts";
import { followBuild } from "../progress.ts";

/** Runs make, tells now and then how far it is, and fails with its last words. */
export async function followMake(
  { about, args, cwd, log }: {
    readonly about: string;
    readonly args: readonly string[];
    readonly cwd: string;
    readonly log: Log;
  },
): Promise<void> {
  log(`building ${about}`);
  const child = new Deno.Command("sh", {
    args: ["-c", 'exec make "$@" 2>&1', "sh", ...args],
    cwd,
    stdin: "null",
    stdout: "piped",
  }).spawn();
  let files = 0;
  const lastWords = await followBuild(child.stdout, {
    onLine: () => files++,
    describe: () => `${files} files compiled`,
    log,
  });
  const { success } = await child.status;
  if (!success) throw new Error(`Cannot build ${about}: ${lastWords}`);
}
