import { libc } from "./libc.ts";

/**
 * Gives unused memory that the C library holds back to the kernel:
 * malloc_trim(3). Takes a few milliseconds. Returns whether there was any.
 */
export function trimHeap(): boolean {
  return libc().symbols.malloc_trim(0n) === 1;
}

/**
 * Makes a function that collects garbage at once, so many times, and gives
 * what becomes free back to the kernel. It blocks the thread for some 20 to 50
 * ms each time.
 *
 * V8 keeps the pages that a collection empties, and frees them in the next:
 * who wants them back at once collects twice.
 */
export function heapCollector(): (times?: number) => void {
  // Not imported: loading them costs a call of a plugin, which collects nothing, 20 ms.
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  const { runInNewContext } = process.getBuiltinModule("node:vm");
  // V8 offers its collector only to a context made after the flag was set. The
  // flag stays: it is the process's, and another thread may be between the two.
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  return (times = 1) => {
    for (let i = 0; i < times; i++) {
      if (typeof collect === "function") collect();
    }
    trimHeap();
  };
}
