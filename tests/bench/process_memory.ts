/**
 * Memory of a process, in MiB (proc_pid_smaps(5)). Resident counts the pages of
 * the executable too, which all processes share; anonymous is its own.
 */
export interface Memory {
  readonly residentMiB: number;
  readonly anonymousMiB: number;
}

export function memoryOf(pid: number): Memory {
  const text = Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`);
  const kib = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  return {
    residentMiB: kib("Rss") / 1024,
    anonymousMiB: kib("Anonymous") / 1024,
  };
}
