import { run } from "../../deploy/host/mod.ts";
import { ROOT } from "../arch/ranks.ts";

/** Lines of files, counted from 1. */
export type Lines = ReadonlyMap<string, ReadonlySet<number>>;

/** Lines that differ from origin/main, or from the commit before when there are none. */
export async function changedLines(): Promise<Lines> {
  const git = (...args: string[]) => run("git", args, { cwd: ROOT });
  for (const base of ["origin/main", "HEAD~1"]) {
    const from = await git("merge-base", "HEAD", base).catch(() => "");
    if (from === "") continue;
    const diff = await git("diff", "-U0", "--no-color", from.trim());
    if (diff !== "") return linesOf(diff);
  }
  return new Map();
}

/** The lines that a diff without context adds. */
export function linesOf(diff: string): Lines {
  const lines = new Map<string, Set<number>>();
  let file = "";
  for (const text of diff.split("\n")) {
    file = /^\+\+\+ b\/(.*)$/.exec(text)?.[1] ?? file;
    const [, start, count = "1"] =
      /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(text) ??
        [];
    if (start === undefined) continue;
    const of = lines.get(file) ?? new Set();
    lines.set(file, of);
    for (let i = 0; i < Number(count); i++) of.add(Number(start) + i);
  }
  return lines;
}
