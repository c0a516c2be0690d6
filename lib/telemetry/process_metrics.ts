import type { Registry } from "prom-client";
import { MetricFactory } from "./metric_factory.ts";

/** Linux reports process times in units of USER_HZ, which is 100 on every architecture V8 runs on (proc_pid_stat(5)). */
const TICKS_PER_SECOND = 100;

/**
 * Registers the process metrics that every Prometheus client library has, read from /proc when scraped.
 *
 * prom-client's own set is not used: it keeps timers and observers running all the time. Of the Go runtime's names,
 * which Coil's dashboards read, only the heap size means the same thing here.
 */
export function registerProcessMetrics(registry: Registry): void {
  const make = new MetricFactory(registry);
  make.counter("process_cpu_seconds_total", {
    help: "Total user and system CPU time spent in seconds.",
    collect: (counter) => {
      counter.reset();
      counter.inc(readStat().cpuSeconds);
    },
  });
  const gauge = (name: string, help: string, read: () => number) =>
    make.gauge(name, { help, read });
  gauge(
    "process_resident_memory_bytes",
    "Resident memory size in bytes.",
    () => Deno.memoryUsage().rss,
  );
  gauge(
    "process_virtual_memory_bytes",
    "Virtual memory size in bytes.",
    () => readStat().virtualBytes,
  );
  gauge("process_open_fds", "Number of open file descriptors.", countOpenFiles);
  gauge(
    "process_max_fds",
    "Maximum number of open file descriptors.",
    readMaxOpenFiles,
  );
  // Upstream's dashboards read go_goroutines, which mean nothing here.
  gauge("process_threads", "Number of threads.", () => readStat().threads);
  gauge(
    "go_memstats_heap_alloc_bytes",
    "Number of bytes allocated on the (V8) heap and still in use.",
    () => Deno.memoryUsage().heapUsed,
  );
  make.gauge("process_start_time_seconds", {
    help: "Start time of the process since unix epoch in seconds.",
  }).set(performance.timeOrigin / 1000);
}

function readStat(): {
  readonly cpuSeconds: number;
  readonly virtualBytes: number;
  readonly threads: number;
} {
  const text = Deno.readTextFileSync("/proc/self/stat");
  // The second field is the program's name in parentheses and may hold anything; state is the third.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (number: number) => Number(fields[number - 3]);
  return {
    cpuSeconds: (field(14) + field(15)) / TICKS_PER_SECOND,
    virtualBytes: field(23),
    threads: field(20),
  };
}

/** The soft limit; infinite where there is none. */
function readMaxOpenFiles(): number {
  const text = Deno.readTextFileSync("/proc/self/limits");
  const limit = /^Max open files +(\S+)/m.exec(text)?.[1];
  return limit === "unlimited" ? Infinity : Number(limit);
}

function countOpenFiles(): number {
  let count = 0;
  for (const _entry of Deno.readDirSync("/proc/self/fd")) count++;
  return count - 1; // without the directory being read
}
