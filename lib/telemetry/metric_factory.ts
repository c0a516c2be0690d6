import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/** Properties of a metric, besides its name. */
export interface MetricOptions<L extends string, M> {
  /** What it counts or measures. */
  readonly help: string;
  /** The names of its labels. */
  readonly labels?: readonly L[];
  /** Brings it up to date; called each time that it is served. */
  readonly collect?: (metric: M) => void | Promise<void>;
}

/** Makes metrics that a registry serves. */
export class MetricFactory {
  readonly #registers: Registry[];

  /** Registers with that registry alone. */
  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  /** Makes a counter. */
  counter<const L extends string = string>(
    name: string,
    options: MetricOptions<L, Counter<L>>,
  ): Counter<L> {
    return new Counter(this.#configuration(name, options));
  }

  /** Makes a gauge. With `read` it has no labels, and that value when it is served; it is absent while that is undefined. */
  gauge<const L extends string = string>(
    name: string,
    { read, ...options }: MetricOptions<L, Gauge<L>> & {
      readonly read?: () => number | undefined | Promise<number | undefined>;
    },
  ): Gauge<L> {
    const collect = read && (async (gauge: Gauge<L>) => {
      const value = await read();
      if (value === undefined) gauge.remove();
      else gauge.set(value);
    });
    return new Gauge(
      this.#configuration(name, collect ? { ...options, collect } : options),
    );
  }

  /** Makes a histogram of buckets with these upper bounds. */
  histogram<const L extends string = string>(
    name: string,
    { buckets, ...options }: MetricOptions<L, Histogram<L>> & {
      readonly buckets: readonly number[];
    },
  ): Histogram<L> {
    const configuration = this.#configuration(name, options);
    return new Histogram({ ...configuration, buckets: [...buckets] });
  }

  #configuration<L extends string, M>(
    name: string,
    { help, labels = [], collect }: MetricOptions<L, M>,
  ) {
    return {
      name,
      help,
      labelNames: labels,
      registers: this.#registers,
      collect(this: M) {
        return collect?.(this);
      },
    };
  }
}
