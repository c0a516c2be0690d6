// The programs of an earlier commit of this repository, from its history.
import { run } from "../lab/mod.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** The last one whose coild watches by label, and whose controller writes no slices (docs/decisions 0023, 0024). */
export const FORMER = "5efa5f98e5e1f42e8f59efa6cfecdd07708a852d";

/** Whether this clone has the commit: a shallow one does not. */
export async function hasFormer(): Promise<boolean> {
  const args = ["cat-file", "-e", `${FORMER}^{commit}`];
  return await run("git", args, { cwd: ROOT }).then(() => true, () => false);
}

/** Writes its sources below a directory; returns its main.ts. */
export async function writeFormer(directory: string): Promise<string> {
  const parts = "deno.json deno.lock main.ts lib roles proto";
  await run("sh", [
    "-ec",
    `mkdir -p "$1"; git archive ${FORMER} ${parts} | tar -x -C "$1"`,
    "sh",
    directory,
  ], { cwd: ROOT });
  return `${directory}/main.ts`;
}
