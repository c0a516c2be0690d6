import { libc } from "./libc.ts";

/**
 * Gives memory that the C library holds and nobody uses back to the kernel:
 * malloc_trim(3). Takes a few milliseconds. Tells whether there was any.
 */
export function trimHeap(): boolean {
  return libc().symbols.malloc_trim(0n) === 1;
}
