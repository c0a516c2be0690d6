// How long another program waits for the API server.
import { type Figure, figure } from "../figures.ts";

/** What became of one request. */
export interface Asked {
  readonly what: "get" | "renew";
  /** In ms since 1970. */
  readonly atMs: number;
  readonly ms: number;
  /** 0 when there was no answer. */
  readonly status: number;
}

/** A time, in ms since 1970. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The requests that began in this time. */
export function askedIn(
  asked: readonly Asked[],
  { fromMs, toMs }: Window,
): Asked[] {
  return asked.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
}

/** Classes of answers that are no success. */
const FAILURES: readonly (readonly [string, (status: number) => boolean])[] = [
  ["none", (status) => status === 0],
  ["429", (status) => status === 429],
  ["401or403", (status) => status === 401 || status === 403],
  ["5xx", (status) => status >= 500],
];

/** Whether it was answered as asked. */
export function isSuccess({ status }: Asked): boolean {
  return status >= 200 && status < 300;
}

/** The longest time in which no request succeeded, in ms. */
export function longestGapMs(
  asked: readonly Asked[],
  { fromMs, toMs }: Window,
): number {
  const ends = asked.filter(isSuccess)
    .map(({ atMs, ms }) => Math.min(atMs + ms, toMs))
    .filter((atMs) => atMs >= fromMs)
    .sort((a, b) => a - b);
  const starts = [fromMs, ...ends];
  return Math.max(...[...ends, toMs].map((end, i) => end - (starts[i] ?? end)));
}

/**
 * For each kind of request: what the successful ones waited, the longest time
 * without a success, and when the first came; and how many failed in which way.
 */
export function waitFigures(
  name: string,
  all: readonly Asked[],
  window: Window,
): Figure[] {
  const asked = askedIn(all, window);
  const figures = (["get", "renew"] as const).flatMap((what) => {
    const ofKind = asked.filter((a) => a.what === what);
    const done = ofKind.filter(isSuccess);
    const firstMs = Math.min(...done.map(({ atMs, ms }) => atMs + ms));
    const of = `${name}.${what}`;
    return [
      ...done.length > 0 ? [figure(of, "ms", done.map(({ ms }) => ms))] : [],
      figure(`${of}.first`, "ms", [firstMs - window.fromMs]),
      figure(`${of}.gap`, "ms", [longestGapMs(ofKind, window)]),
    ];
  });
  return [
    ...figures,
    ...FAILURES.map(([failure, is]) =>
      figure(`${name}.${failure}`, "requests", [
        asked.filter(({ status }) => is(status)).length,
      ])
    ),
  ];
}
