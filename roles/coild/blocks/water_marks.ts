import { DEFAULT_WATER_MARKS, type WaterMarks } from "../../../lib/ipam/mod.ts";

/**
 * The marks for `--low-water`: blocks go back when twice as much, and at least
 * one whole block more, is free. Negative: the defaults.
 */
export function waterMarksFor(lowWater: number): WaterMarks {
  if (lowWater < 0) return DEFAULT_WATER_MARKS;
  return {
    low: () => lowWater,
    high: (blockSize) => lowWater === 0 ? 0 : lowWater + blockSize,
  };
}
