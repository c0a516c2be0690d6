import * as path from "node:path";
import { fileURLToPath } from "node:url";

/** Where files of tests leave a mark while they run. */
export const RUNNING_FILES_ENV = "COIL_RUNNING_FILES";

/** Paths of the files whose marks are in the directory, from where this process runs; of `inTurn`, which run one after the other, the last. */
export async function runningFiles(
  directory: string,
  { inTurn = false }: { readonly inTurn?: boolean } = {},
): Promise<string[]> {
  const marks = await readMarks(directory);
  const running = inTurn
    ? marks.toSorted((a, b) => a.sinceMs - b.sinceMs).slice(-1)
    : marks;
  return running.map(({ file }) => file).sort();
}

interface Mark {
  readonly file: string;
  readonly sinceMs: number;
}

async function readMarks(directory: string): Promise<Mark[]> {
  const marks: Mark[] = [];
  const entries = await unlessGone(() =>
    Array.fromAsync(Deno.readDir(directory))
  );
  for (const { name } of entries ?? []) {
    const file = path.join(directory, name);
    const mark = await unlessGone(() => readMark(file));
    if (mark !== undefined) marks.push(mark);
  }
  return marks;
}

/** Undefined while it is being written. */
async function readMark(mark: string): Promise<Mark | undefined> {
  const module = await Deno.readTextFile(mark);
  if (module === "") return undefined;
  const { mtime } = await Deno.stat(mark);
  const file = path.relative(Deno.cwd(), fileURLToPath(module));
  return { file, sinceMs: mtime?.getTime() ?? 0 };
}

/** Files of tests end, and all of them, while their marks are read. */
async function unlessGone<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
