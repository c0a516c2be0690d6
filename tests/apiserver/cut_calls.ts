/** Calls that `coild_cut_main.ts` ends amid their changes of the kernel, and what it writes about them. */

/** Environment variable of the file that gets a line for each step. */
export const STEPS_FILE_ENV = "COIL_TEST_STEPS_FILE";

/** The calls that change the kernel. */
export type CutMethod = "add" | "del";

/** What a line of the file says. A call is `cut` when it wants another step than it may make. */
export interface CutRecord {
  readonly method: CutMethod;
  readonly pod: string;
  readonly event: "step" | "cut" | "answered";
  /** What the step does. */
  readonly text?: string;
}

/** The name of a pod whose call of that method makes so many steps and no more. */
export function cutName(
  method: CutMethod,
  { steps, sequel }: { readonly steps: number; readonly sequel: string },
): string {
  return `${method}-${steps}-${sequel}`;
}

/** How many steps a call about a pod may make. */
export function stepsOf(method: CutMethod, pod: string): number {
  const [, of, steps] = /^(add|del)-(\d+)-/.exec(pod) ?? [];
  return of === method ? Number(steps) : Infinity;
}

/** What was written so far, in order. */
export async function readCuts(file: string): Promise<readonly CutRecord[]> {
  const text = await Deno.readTextFile(file);
  // The last line may not be whole yet.
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}
