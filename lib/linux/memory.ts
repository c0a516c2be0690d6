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

/** `MADV_DONTNEED` of `<linux/mman.h>`. */
const MADV_DONTNEED = 4;

/** First address and length. */
export type Mapping = readonly [address: bigint, length: bigint];

/**
 * Makes a function that gives the pages of the executable that this process
 * has in its memory back: madvise(2). They stay in the kernel's page cache, and
 * a page that is needed again is mapped at its next use, with its neighbours
 * and without a read. Two thirds of them were needed for the start alone.
 */
export function filePagesReleaser(): () => void {
  const file = Deno.readLinkSync("/proc/self/exe");
  let mappings: readonly Mapping[] | undefined;
  return () => {
    mappings ??= tryCleanMappings(file);
    for (const [address, length] of mappings ?? []) {
      libc().symbols.madvise(address, length, MADV_DONTNEED);
    }
  };
}

/** Undefined where the kernel does not say them (CONFIG_PROC_PAGE_MONITOR), and while the process has no free file descriptor. */
function tryCleanMappings(file: string): readonly Mapping[] | undefined {
  try {
    return cleanMappings(Deno.readTextFileSync("/proc/self/smaps"), file);
  } catch {
    return undefined;
  }
}

/**
 * The mappings of a file that cannot be written to and of which no page is the
 * process's own: those that relocation has changed would be lost. Pure; `smaps`
 * is of proc_pid_smaps(5).
 */
export function cleanMappings(smaps: string, file: string): Mapping[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap((entry) => {
    const [, from, to, path] =
      /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \d+ +(.*)$/m.exec(entry) ?? [];
    const isClean = path === file && /^Anonymous: +0 kB$/m.test(entry);
    if (!isClean || from === undefined || to === undefined) return [];
    const address = BigInt(`0x${from}`);
    return [[address, BigInt(`0x${to}`) - address] as const];
  });
}
