// Which programs the processors worked for: times of many pods on two cores say little by themselves.

/** Kernel's USER_HZ, in which /proc tells times; 100 on every architecture that Coil runs on. */
const TICKS_PER_SECOND = 100;

/** Times in seconds. */
export interface Usage {
  /** Of a program itself, all threads. */
  readonly own: number;
  /** Of those that it started and waited for. */
  readonly children: number;
}

/** A program that runs. */
interface Program extends Usage {
  readonly name: string;
}

/** What the programs that run have used so far, by their process IDs. */
export type ProcessorTime = ReadonlyMap<string, Program>;

/** Programs of a node and of the control plane. */
const OURS = /^(coil.*|containerd.*|kubelet|kube-.*|etcd|podtool)$/;
/** The kernel's own threads are many, and work for anyone who comes. */
const KERNEL = /^(kworker|ksoftirqd|rcu_)/;

/** Reads what all programs of a lab's nodes and control plane, and the kernel's threads, have used so far. */
export async function readProcessorTime(lab: string): Promise<ProcessorTime> {
  const programs = new Map<string, Program>();
  for await (const { name: pid } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const program = parseStat(await readProcess(pid, "stat"));
    if (program === undefined) continue;
    const isCounted = KERNEL.test(program.name) ||
      OURS.test(program.name) && await isOf(lab, pid);
    if (isCounted) programs.set(pid, program);
  }
  return programs;
}

/** Programs of pods are in the lab's control groups; others are told of its files. A shim knows neither, and its parent is the node's first process. */
async function isOf(lab: string, pid: string): Promise<boolean> {
  const command = await readProcess(pid, "cmdline");
  if (command.includes(`/run/${lab}/`) || command.includes("-shim-")) {
    return true;
  }
  return (await readProcess(pid, "cgroup")).includes(`/coil-${lab}/`);
}

/** Programs end while we look. */
async function readProcess(pid: string, file: string): Promise<string> {
  return await Deno.readTextFile(`/proc/${pid}/${file}`).catch(() => "");
}

/** proc(5): the name is in brackets; of what follows, 11th to 14th are utime, stime, cutime and cstime. */
function parseStat(text: string): Program | undefined {
  const [start, end] = [text.indexOf("("), text.lastIndexOf(")")];
  if (end < 0) return undefined;
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = text.slice(end + 2)
    .split(" ").slice(11, 15).map(Number);
  return {
    name: text.slice(start + 1, end),
    own: (utime + stime) / TICKS_PER_SECOND,
    children: (cutime + cstime) / TICKS_PER_SECOND,
  };
}

/** What was used between two readings, by name; programs that ended since count where their parents do. */
export function timeBetween(
  before: ProcessorTime,
  after: ProcessorTime,
): ReadonlyMap<string, Usage> {
  const total = new Map<string, Usage>();
  for (const [pid, program] of after) {
    const earlier = before.get(pid) ?? { own: 0, children: 0 };
    const name = KERNEL.test(program.name) ? "kernel" : program.name;
    const { own, children } = total.get(name) ?? { own: 0, children: 0 };
    total.set(name, {
      own: own + program.own - earlier.own,
      children: children + program.children - earlier.children,
    });
  }
  return total;
}

/** Milliseconds for each of `count` pods: `60 = containerd 12 + 8, kubelet 40`, what children took behind the plus. */
export function describeTime(
  time: ReadonlyMap<string, Usage>,
  count: number,
): string {
  const perPod = (seconds: number) => Math.round(seconds * 1000 / count);
  const parts = [...time]
    .map(([name, { own, children }]) => ({
      name,
      own: perPod(own),
      children: perPod(children),
    }))
    .filter(({ own, children }) => own + children > 0)
    .sort((a, b) => b.own + b.children - a.own - a.children);
  const total = parts.reduce((sum, p) => sum + p.own + p.children, 0);
  return `${total} = ${
    parts.map(({ name, own, children }) =>
      children > 0 ? `${name} ${own} + ${children}` : `${name} ${own}`
    ).join(", ")
  }`;
}
