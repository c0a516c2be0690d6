/** Resident and private memory of a process, in MiB (proc_pid_smaps(5)). */
export interface Memory {
  readonly residentMiB: number;
  readonly privateMiB: number;
}

export function memoryOf(pid: number): Memory {
  const text = Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`);
  const kib = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  return {
    residentMiB: kib("Rss") / 1024,
    privateMiB: (kib("Private_Clean") + kib("Private_Dirty")) / 1024,
  };
}
