/** Bounds that hold on a slow machine, too: it delays what is measured as it delays timers and other processes. */
import assert from "node:assert/strict";
import type { AdminAccess } from "./admin_access.ts";
import { run } from "./command.ts";
import { awaitedLater, sleep } from "./wait.ts";

const TIMER_MS = 20;
/** Between two steps of another process. */
const REST_MS = 100;

/** How often a daemon waits for a processor, a timer or another process, from what it hears to what it has done. */
const STEPS = 10;

/** What the lag is measured by. */
export interface LagOptions {
  /** What another process does again and again while the work runs. Default: it starts and ends. */
  readonly step?: () => Promise<unknown>;
}

/** How long something may take. */
export interface Bound {
  /** For the error. */
  readonly what: string;
  /** On a machine that has time. */
  readonly limitMs: number;
}

/**
 * How late a timer fires, or how long a step of another process takes, at worst
 * while `work` runs: a busy machine delays every other process as much, at each
 * of its steps.
 */
export async function lagWhile<T>(
  work: () => Promise<T>,
  { step = () => run("true", []) }: LagOptions = {},
): Promise<{ readonly value: T; readonly lagMs: number }> {
  let isOver = false;
  let lagMs = 0;
  let firedMs = performance.now();
  const fire = () => {
    const nowMs = performance.now();
    lagMs = Math.max(lagMs, nowMs - firedMs - TIMER_MS);
    firedMs = nowMs;
  };
  const timer = setInterval(fire, TIMER_MS);
  const stepping = awaitedLater((async () => {
    while (!isOver) {
      const begunMs = performance.now();
      await step();
      lagMs = Math.max(lagMs, performance.now() - begunMs);
      await sleep(REST_MS);
    }
  })());
  const over = async () => {
    isOver = true;
    fire();
    clearInterval(timer);
    await stepping;
  };
  let value: T;
  try {
    value = await work();
  } catch (error) {
    // Of two errors this is the one to be seen.
    await over().catch(() => {});
    throw error;
  }
  await over();
  return { value, lagMs };
}

/** Asserts that something took no longer than its limit plus ten times the lag. */
export function assertWithin(
  tookMs: number,
  { what, limitMs, lagMs }: Bound & { readonly lagMs: number },
): void {
  const [took, late] = [tookMs, lagMs].map(Math.round);
  assert.ok(
    tookMs <= limitMs + STEPS * lagMs,
    `${what}: ${took} ms, not ${limitMs} ms; a timer or a step of another process was up to ${late} ms late`,
  );
}

/** Asserts that `work` takes no longer than its limit plus ten times the lag while it runs. Returns how long it took, ms. */
export async function assertSoon(
  work: () => Promise<unknown>,
  { what, limitMs, step }: Bound & LagOptions,
): Promise<number> {
  const begunMs = performance.now();
  const { value: endedMs, lagMs } = await lagWhile(async () => {
    await work();
    return performance.now();
  }, step && { step });
  const tookMs = endedMs - begunMs;
  assertWithin(tookMs, { what, limitMs, lagMs });
  return tookMs;
}

/** A step of the API server and etcd: they write what is about nothing. */
export function writing(
  plane: Pick<AdminAccess, "request">,
): () => Promise<unknown> {
  const path = "/api/v1/namespaces/default/configmaps/lag?fieldManager=lag";
  const contentType = "application/apply-patch+yaml";
  return () =>
    plane.request("PATCH", path, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "lag" },
      data: { at: `${performance.now()}` },
    }, { contentType });
}
