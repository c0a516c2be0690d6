/** Which blocks of our code an input has reached that none had before, by V8's own counters. */
import inspector from "node:inspector";

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly {
      readonly startOffset: number;
      readonly endOffset: number;
      readonly count: number;
    }[];
  }[];
}

const OURS = /\/(?:lib|roles)\//;

/** Counts blocks from its making on. */
export class Coverage implements Disposable {
  readonly #session = new inspector.Session();
  readonly #seen = new Set<string>();

  /** Starts counting. */
  static async start(): Promise<Coverage> {
    const coverage = new Coverage();
    coverage.#session.connect();
    await coverage.#post("Profiler.enable");
    await coverage.#post("Profiler.startPreciseCoverage", {
      callCount: true,
      detailed: true,
    });
    return coverage;
  }

  /** How many blocks have been reached. */
  get size(): number {
    return this.#seen.size;
  }

  /** Whether something was reached since the last look that was not before. */
  async hasNew(): Promise<boolean> {
    const before = this.#seen.size;
    const { result } = await this.#post("Profiler.takePreciseCoverage") as {
      readonly result: readonly ScriptCoverage[];
    };
    for (const { url, functions } of result) {
      if (!OURS.test(url)) continue;
      for (const { ranges } of functions) {
        for (const { startOffset, endOffset, count } of ranges) {
          if (count > 0) this.#seen.add(`${url}:${startOffset}-${endOffset}`);
        }
      }
    }
    return this.#seen.size > before;
  }

  #post(method: string, params: object = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#session.post(method, params, (error, result) => {
        if (error) reject(error);
        else resolve(result);
      });
    });
  }

  [Symbol.dispose](): void {
    this.#session.disconnect();
  }
}
