// Two ways compared by bursts in turn.
import type { EgressLab } from "../../vm/egress_server_lab.ts";

/** Bursts by each way for one sample. */
const BURSTS = 200;
/** Of these the share that is quicker than the sample: the others met something else. */
const QUICKER = 0.1;

/** Two ways to the same gateway. */
export interface TunnelLabs {
  readonly service: EgressLab;
  readonly direct: EgressLab;
}

/** Throughput of the second way as a percentage of that of the first; each is called for one burst. */
export async function compareBursts(
  { service, direct }: Readonly<
    Record<keyof TunnelLabs, () => void | Promise<void>>
  >,
): Promise<number> {
  const times: [number[], number[]] = [[], []];
  for (let i = 0; i < BURSTS; i++) {
    // Which is first differs.
    for (const turn of i % 2 === 0 ? [0, 1] as const : [1, 0] as const) {
      const startMs = performance.now();
      await (turn === 0 ? service : direct)();
      times[turn].push(performance.now() - startMs);
    }
  }
  const [ofService = NaN, ofDirect = NaN] = times.map(quick);
  return 100 * ofService / ofDirect;
}

function quick(times: readonly number[]): number | undefined {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * QUICKER)];
}
