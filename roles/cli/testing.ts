/**
 * Runs `coil` in the process of a test.
 *
 * @module
 */
import { run } from "./mod.ts";

/** How a command ended, and what it wrote. */
export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs `coil` with these arguments; `now` is its time. */
export async function coil(
  args: readonly string[],
  now: () => Date = () => new Date(),
): Promise<Output> {
  let [out, err] = ["", ""];
  const terminal = {
    out: (text: string) => void (out += text),
    err: (text: string) => void (err += text),
    now,
  };
  const code = await run(args, { program: "coil", terminal });
  return { code, out, err };
}
