/**
 * Memory of a process, in MiB (proc_pid_smaps(5)). Resident counts the pages of
 * the executable too, which all processes share; proportional, its share of
 * those; anonymous is its own.
 */
export interface Memory {
  readonly residentMiB: number;
  readonly proportionalMiB: number;
  readonly anonymousMiB: number;
}

export function memoryOf(pid: number): Memory {
  const text = Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`);
  const kib = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  return {
    residentMiB: kib("Rss") / 1024,
    proportionalMiB: kib("Pss") / 1024,
    anonymousMiB: kib("Anonymous") / 1024,
  };
}

/** The most that a process has held since {@linkcode resetPeak}, in MiB, pages of the executable included. */
export function peakOf(pid: number): number {
  const text = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(text)?.[1]) / 1024;
}

/** Forgets the most that a process has held (proc_pid_clear_refs(5)). */
export function resetPeak(pid: number): void {
  Deno.writeTextFileSync(`/proc/${pid}/clear_refs`, "5", { create: false });
}

/**
 * The working set of a control group, in MiB, as kubelet counts it: all memory
 * but pages of files that were not used lately. Pages of a file count for the
 * group that touched them first.
 */
export function workingSetOf(group: string): number {
  const isFirst = exists(`${group}/memory.usage_in_bytes`);
  const [usage, inactive] = isFirst
    ? ["memory.usage_in_bytes", "total_inactive_file"]
    : ["memory.current", "inactive_file"];
  const bytes = Number(Deno.readTextFileSync(`${group}/${usage}`));
  const text = Deno.readTextFileSync(`${group}/memory.stat`);
  const idle = Number(new RegExp(`^${inactive} (\\d+)`, "m").exec(text)?.[1]);
  return (bytes - idle) / 2 ** 20;
}

function exists(file: string): boolean {
  try {
    Deno.statSync(file);
    return true;
  } catch (err) {
    if (err instanceof Deno.errors.NotFound) return false;
    throw err;
  }
}

/** Processor time that a process has used so far, in seconds (proc_pid_stat(5)). */
export function processorSeconds(pid: number): number {
  return secondsIn(pid, 11);
}

/** The same of all its threads in nanoseconds (Documentation/scheduler/sched-stats.rst), for short times. */
export function processorNs(pid: number): number {
  let total = 0;
  for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
    const text = Deno.readTextFileSync(`/proc/${pid}/task/${name}/schedstat`);
    total += Number(text.split(" ")[0]);
  }
  return total;
}

type Program = { readonly pid: number } | undefined;

/** A cluster's programs that share the processors; `bench` is this one, which asks. */
export function pidsOf({ plane, controller }: {
  readonly plane: { readonly apiServer: Program; readonly etcd: Program };
  readonly controller: Program;
}): Record<"server" | "etcd" | "controller" | "bench", number> {
  const { apiServer, etcd } = plane;
  if (!apiServer || !etcd || !controller) {
    throw new Error("Cannot measure: a program of the cluster does not run");
  }
  return {
    server: apiServer.pid,
    etcd: etcd.pid,
    controller: controller.pid,
    bench: Deno.pid,
  };
}

/** Processor time that each of these processes has used so far, in seconds. */
export function processorSecondsOf(
  pids: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(pids).map(([program, pid]) =>
      [program, processorSeconds(pid)] as const
    ),
  );
}

/** Processor time that each of these processes has used since it was read, in seconds. */
export function processorSecondsSince(
  pids: Readonly<Record<string, number>>,
  before: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(processorSecondsOf(pids)).map(([program, seconds]) =>
      [program, seconds - (before[program] ?? 0)] as const
    ),
  );
}

/** Processor time of all children of this process that have ended, in seconds. */
export function endedChildrenSeconds(): number {
  return secondsIn("self", 13);
}

/** The sum of two fields, in user mode and in the kernel. */
function secondsIn(process: number | "self", first: number): number {
  const text = Deno.readTextFileSync(`/proc/${process}/stat`);
  // After the name, which may have anything in it; times are in 1/100 s.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[first]) + Number(fields[first + 1])) / 100;
}
