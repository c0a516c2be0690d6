// Which programs the processors worked for: times of many pods on two cores say little by themselves.

/** Kernel's USER_HZ, in which /proc tells times; 100 on every architecture that Coil runs on. */
const TICKS_PER_SECOND = 100;

/** Times of the programs of one name, in seconds. */
interface Usage {
  /** Of the programs themselves, all threads. */
  readonly own: number;
  /** Of those that they started and waited for. */
  readonly children: number;
}

/** Times of all programs that run, by their names. */
export type ProcessorTime = ReadonlyMap<string, Usage>;

/** Programs of a node and of the control plane; the machine may have others, which others started. */
const OURS =
  /^(coil.*|containerd.*|kubelet|kube-.*|etcd|runc.*|podtool|kworker.*|ksoftirqd.*|rcu_.*)$/;

/** Reads what all programs of nodes and control plane have used so far. */
export async function readProcessorTime(): Promise<ProcessorTime> {
  const total = new Map<string, Usage>();
  for await (const { name: pid } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    // Programs end while we look.
    const text = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
    const stat = parseStat(text);
    if (stat === undefined) continue;
    const { own = 0, children = 0 } = total.get(stat.name) ?? {};
    total.set(stat.name, {
      own: own + stat.own,
      children: children + stat.children,
    });
  }
  return total;
}

/** proc(5): the name is in brackets; of what follows, 11th to 14th are utime, stime, cutime and cstime. */
function parseStat(text: string): Usage & { name: string } | undefined {
  const [start, end] = [text.indexOf("("), text.lastIndexOf(")")];
  if (end < 0) return undefined;
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = text.slice(end + 2)
    .split(" ").slice(11, 15).map(Number);
  const name = text.slice(start + 1, end);
  if (!OURS.test(name)) return undefined;
  return {
    // The kernel's own threads are many, and work for whoever comes.
    name: /^(kworker|ksoftirqd|rcu_)/.test(name) ? "kernel" : name,
    own: (utime + stime) / TICKS_PER_SECOND,
    children: (cutime + cstime) / TICKS_PER_SECOND,
  };
}

/** What was used between two readings; programs that ended meanwhile count where their parents do. */
export function timeBetween(
  before: ProcessorTime,
  after: ProcessorTime,
): ProcessorTime {
  return new Map(
    [...after].map(([name, { own, children }]) => {
      const earlier = before.get(name) ?? { own: 0, children: 0 };
      return [name, {
        own: own - earlier.own,
        children: children - earlier.children,
      }];
    }),
  );
}

/** Milliseconds for each of `count` pods: `60 = containerd 12 + 8, kubelet 40`, what children took behind the plus. */
export function describeTime(time: ProcessorTime, count: number): string {
  const perPod = (seconds: number) => Math.round(seconds * 1000 / count);
  const parts = [...time]
    .map(([name, { own, children }]) => ({
      ...{ name, own: perPod(own), children: perPod(children) },
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
