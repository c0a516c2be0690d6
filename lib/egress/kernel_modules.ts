import type { Family } from "../inet/mod.ts";

/** Loads what tunnels of these families need. */
export function prepareKernel(_families: readonly Family[]): Promise<void> {
  throw new TypeError("Cannot prepare kernel: not written yet");
}
