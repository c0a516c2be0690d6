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

/** Under what circumstances `coil` runs. */
export interface Circumstances {
  readonly now?: () => Date;
  /** Whether it writes to a screen with colours. */
  readonly isScreen?: boolean;
  readonly signal?: AbortSignal;
  /** Called with all that was written, whenever there is more. */
  readonly onWrite?: (written: Omit<Output, "code">) => void;
}

/** Runs `coil` with these arguments. */
export async function coil(
  args: readonly string[],
  { now = () => new Date(), isScreen, signal, onWrite }: Circumstances = {},
): Promise<Output> {
  let [out, err] = ["", ""];
  const terminal = {
    out: (text: string) => {
      out += text;
      onWrite?.({ out, err });
    },
    err: (text: string) => {
      err += text;
      onWrite?.({ out, err });
    },
    now,
    isScreen,
    colours: isScreen,
  };
  const code = await run(args, { program: "coil", terminal, signal });
  return { code, out, err };
}
