import { FreshRun, sleep } from "../async/mod.ts";

/** After a rendering, none begins for so many times what it took: a tenth of the time goes into it, if one takes up to 0.1 s. */
const REST_FACTOR = 9;
/** Longer would make scrapers wait that come one after the other, on a machine that is busy. */
const MAX_REST_MS = 1_000;

/** A text, and the same compressed. */
export interface Rendered {
  /** UTF-8. */
  readonly plain: Uint8Array<ArrayBuffer>;
  /** Compresses it, once for all who ask. */
  readonly gzip: () => Promise<Uint8Array<ArrayBuffer>>;
}

/**
 * Renders a text for those who ask for it. However many ask, little of the time goes into it: those who come before it
 * begins share one rendering, and the next begins only after a rest. What one gets was rendered after one has asked.
 */
export class Rendering {
  readonly #runs: FreshRun<Rendered>;
  #restUntilMs = -Infinity;

  constructor(render: () => Promise<string>, signal: AbortSignal) {
    this.#runs = new FreshRun(
      () => this.#run(render),
      () => this.#rest(signal),
    );
  }

  /** @throws what rendering throws */
  get(): Promise<Rendered> {
    return this.#runs.do();
  }

  async #rest(signal: AbortSignal): Promise<void> {
    const restMs = this.#restUntilMs - performance.now();
    if (restMs > 0) await sleep(restMs, { signal });
  }

  async #run(render: () => Promise<string>): Promise<Rendered> {
    const startMs = performance.now();
    try {
      return toRendered(new TextEncoder().encode(await render()));
    } finally {
      const endMs = performance.now();
      const tookMs = endMs - startMs;
      this.#restUntilMs = endMs + Math.min(REST_FACTOR * tookMs, MAX_REST_MS);
    }
  }
}

function toRendered(plain: Uint8Array<ArrayBuffer>): Rendered {
  let compressed: Promise<Uint8Array<ArrayBuffer>> | undefined;
  return { plain, gzip: () => compressed ??= compress(plain) };
}

async function compress(
  plain: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([plain]).stream()
    .pipeThrough(new CompressionStream("gzip"));
  return await new Response(stream).bytes();
}
