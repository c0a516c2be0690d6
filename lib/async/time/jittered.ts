/**
 * A time between half and one and a half times `ms`, so that what thousands of
 * nodes began together they do not go on doing together.
 */
export function jittered(
  ms: number,
  random: () => number = Math.random,
): number {
  return ms * (0.5 + random());
}
