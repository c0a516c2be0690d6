import type { QueueObserver } from "./work_queue.ts";
import {
  type Counter,
  type Histogram,
  MetricFactory,
  type Registry,
} from "../../telemetry/mod.ts";

/** client-go's: 10 ns to 1,000 s, each ten times the one before. */
const BUCKETS = Array.from({ length: 12 }, (_, n) => Number(`1e${n - 8}`));

/** What controller-runtime's queue gives keys without another priority. */
const PRIORITY = "0";

const LABELS = ["name", "controller"] as const;

type Label = typeof LABELS[number];

/** Source of a queue's metrics. */
export interface QueueReading {
  /** How many keys wait. */
  readonly depth: () => number;
  /** A clock that only goes forward. */
  readonly nowMs: () => number;
}

/** Metrics of work queues, under the names and labels of controller-runtime 0.23 and client-go. */
export class QueueMetrics {
  readonly #adds: Counter<Label>;
  readonly #retries: Counter<Label>;
  readonly #queueSeconds: Histogram<Label>;
  readonly #workSeconds: Histogram<Label>;
  readonly #queues = new Map<string, QueueReading & { times: QueueTimes }>();

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.#adds = make.counter("workqueue_adds_total", {
      help: "Keys added to the queue.",
      labels: LABELS,
    });
    this.#retries = make.counter("workqueue_retries_total", {
      help: "Keys added again after failures.",
      labels: LABELS,
    });
    this.#queueSeconds = make.histogram("workqueue_queue_duration_seconds", {
      help: "How long keys wait in the queue before processing.",
      labels: LABELS,
      buckets: BUCKETS,
    });
    this.#workSeconds = make.histogram("workqueue_work_duration_seconds", {
      help: "How long processing a key takes.",
      labels: LABELS,
      buckets: BUCKETS,
    });
    this.#registerGauges(make);
  }

  /** Makes a queue's metrics exist; returns the observer for the queue. */
  watch(name: string, reading: QueueReading): QueueObserver {
    const labels = labelsOf(name);
    this.#adds.inc(labels, 0);
    this.#retries.inc(labels, 0);
    this.#queueSeconds.zero(labels);
    this.#workSeconds.zero(labels);
    const times = new QueueTimes(reading.nowMs);
    this.#queues.set(name, { ...reading, times });
    return {
      onAdded: (key) => {
        this.#adds.inc(labels);
        times.added(key);
      },
      onTaken: (key) => this.#queueSeconds.observe(labels, times.taken(key)),
      onDone: (key) => this.#workSeconds.observe(labels, times.done(key)),
    };
  }

  /** Counts a key that is added again after a failure. */
  retried(name: string): void {
    this.#retries.inc(labelsOf(name));
  }

  #registerGauges(make: MetricFactory): void {
    const queues = this.#queues;
    make.gauge("workqueue_depth", {
      help: "Keys waiting in the queue.",
      labels: [...LABELS, "priority"],
      collect: (gauge) => {
        for (const [name, { depth }] of queues) {
          gauge.set({ ...labelsOf(name), priority: PRIORITY }, depth());
        }
      },
    });
    make.gauge("workqueue_unfinished_work_seconds", {
      help:
        "Total time of running work that work_duration does not include yet.",
      labels: LABELS,
      collect: (gauge) => {
        for (const [name, { times }] of queues) {
          gauge.set(labelsOf(name), times.unfinished.totalSeconds);
        }
      },
    });
    make.gauge("workqueue_longest_running_processor_seconds", {
      help: "How long the longest running work has taken so far.",
      labels: LABELS,
      collect: (gauge) => {
        for (const [name, { times }] of queues) {
          gauge.set(labelsOf(name), times.unfinished.longestSeconds);
        }
      },
    });
  }
}

function labelsOf(name: string): Record<Label, string> {
  return { name, controller: name };
}

/** Since when keys wait, or are worked on. */
class QueueTimes {
  readonly #nowMs: () => number;
  readonly #added = new Map<string, number>();
  readonly #taken = new Map<string, number>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get unfinished(): { totalSeconds: number; longestSeconds: number } {
    const ages = [...this.#taken.values()].map((ms) => this.#since(ms));
    return {
      totalSeconds: ages.reduce((sum, age) => sum + age, 0),
      longestSeconds: Math.max(0, ...ages),
    };
  }

  added(key: string): void {
    this.#added.set(key, this.#nowMs());
  }

  /** Returns how many seconds the key has waited. */
  taken(key: string): number {
    const nowMs = this.#nowMs();
    const seconds = this.#since(this.#added.get(key) ?? nowMs);
    this.#added.delete(key);
    this.#taken.set(key, nowMs);
    return seconds;
  }

  /** Returns how many seconds the work on the key has taken. */
  done(key: string): number {
    const seconds = this.#since(this.#taken.get(key) ?? this.#nowMs());
    this.#taken.delete(key);
    return seconds;
  }

  #since(ms: number): number {
    return (this.#nowMs() - ms) / 1_000;
  }
}
