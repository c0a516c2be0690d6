import { describeError } from "../../lib/telemetry/mod.ts";
import type { Figure } from "./figures.ts";

/** Measures one part of a run. */
export type Measure = (
  name: string,
  figures: () => Promise<readonly Figure[]>,
) => Promise<void>;

/** The figures of a run: a part that fails takes neither those before it nor those after it along. */
export class BenchRun {
  readonly #json: string | undefined;
  readonly #log: (text: string) => void;
  readonly #figures: Figure[] = [];
  readonly #failures: string[] = [];

  /** `json` is the file that gets the figures after each part. */
  constructor(
    { json, log }: {
      readonly json?: string | undefined;
      readonly log: (text: string) => void;
    },
  ) {
    this.#json = json;
    this.#log = log;
  }

  get figures(): readonly Figure[] {
    return this.#figures;
  }

  /** What went wrong, in words. */
  get failures(): readonly string[] {
    return this.#failures;
  }

  /** Measures a part; its failure is kept, not thrown. */
  async measure(
    name: string,
    figures: () => Promise<readonly Figure[]>,
  ): Promise<void> {
    const startMs = performance.now();
    try {
      this.#figures.push(...await figures());
    } catch (error) {
      this.#failures.push(`Cannot measure ${name}: ${describeError(error)}`);
    }
    const seconds = Math.round((performance.now() - startMs) / 1000);
    this.#log(`${name}: ${seconds} s`);
    await this.#save();
  }

  async #save(): Promise<void> {
    if (this.#json === undefined) return;
    const text = JSON.stringify(this.#figures, null, 2);
    await Deno.writeTextFile(this.#json, `${text}\n`);
  }
}
