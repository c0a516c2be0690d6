import assert from "node:assert/strict";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  PoolNotFoundError,
  PoolPausedError,
} from "../../../lib/ipam/mod.ts";
import { AddressError } from "../base/errors.ts";
import { allocateFromFirst } from "./pool_fallback.ts";

/** What the pools say; others give an address. */
const CAUSES: Readonly<Record<string, Error>> = {
  full: new OutOfBlocksError("full"),
  paused: new PoolPausedError("paused"),
  typo: new PoolNotFoundError("typo"),
  slow: new BlockTimeoutError("slow", 10_000),
};

/** Asks the pools in turn; returns which were asked. */
async function ask(...pools: string[]) {
  const asked: string[] = [];
  let outcome: unknown;
  try {
    outcome = await allocateFromFirst(pools, (pool) => {
      asked.push(pool);
      const cause = CAUSES[pool];
      if (cause === undefined) return Promise.resolve(`of ${pool}`);
      const event = `${pool} fails`;
      return Promise.reject(
        new AddressError(`${pool} failed`, { cause, event }),
      );
    });
  } catch (error) {
    outcome = error;
  }
  return { asked, outcome };
}

Deno.test("allocateFromFirst() goes on to the next pool only when one certainly gives nothing", async () => {
  for (
    const [pools, asked, expected] of [
      [["a", "b"], ["a"], "of a"],
      [["full", "a", "b"], ["full", "a"], "of a"],
      [["typo", "paused", "a"], ["typo", "paused", "a"], "of a"],
      [["slow", "a"], ["slow"], "slow failed"],
      [["full", "slow", "a"], ["full", "slow"], "slow failed"],
      [["full"], ["full"], "full failed"],
      [["typo", "full"], ["typo", "full"], "typo failed; full failed"],
    ] as const
  ) {
    const result = await ask(...pools);
    const { outcome } = result;
    const text = outcome instanceof Error ? outcome.message : outcome;
    assert.deepEqual([result.asked, text], [asked, expected]);
  }
  const { outcome } = await ask("typo", "full");
  assert.ok(outcome instanceof AddressError);
  assert.equal(outcome.cause, CAUSES["typo"], "decides on code and Event");
  assert.equal(outcome.event, "typo fails; full fails");
});
