import assert from "node:assert/strict";
import type { Call } from "./calls.ts";
import type { Policy, Statement } from "./config.ts";
import { type Access, isAllowed } from "./iam.ts";

/**
 * Fails when a policy does not allow one of these requests, allows one of the
 * foreign ones, has a part that no request needs, or a condition that keeps no
 * foreign one out.
 */
export function assertTight(
  policy: Policy,
  requests: {
    readonly made: readonly Call[];
    readonly foreign: readonly Call[];
  },
): void {
  const made = requests.made.map(needsOf);
  const foreign = requests.foreign.map(needsOf);
  const refused = (policy: Policy) =>
    made.filter((needs) => !isAllowed(policy, needs)).map(textOf);
  const allowed = (policy: Policy) =>
    foreign.filter((needs) => isAllowed(policy, needs)).map(textOf);
  assert.deepEqual(refused(policy), [], "refused");
  assert.deepEqual(allowed(policy), [], "allowed");
  const spare = without(policy, partsOf)
    .filter(([, rest]) => refused(rest).length === 0);
  assert.deepEqual(spare.map(([part]) => part), [], "parts without need");
  const idle = without(policy, conditionsOf)
    .filter(([, rest]) => allowed(rest).length === 0);
  assert.deepEqual(idle.map(([part]) => part), [], "conditions without effect");
}

function needsOf({ call, needs }: Call): readonly Access[] {
  if (needs !== undefined && needs.length > 0) return needs;
  throw new Error(`Cannot judge ${call}: it was made without a policy`);
}

function textOf(needs: readonly Access[]): string {
  return needs.map(({ action, resource }) => `${action} of ${resource}`).join();
}

type Less = readonly [part: string, Statement];

/** The policies that lack one thing. */
function without(
  policy: Policy,
  lessOf: (statement: Statement) => readonly Less[],
): (readonly [part: string, Policy])[] {
  return policy.Statement.flatMap((statement, index) =>
    lessOf(statement).map(([part, less]) =>
      [
        `${statement.Sid}: ${part}`,
        { ...policy, Statement: policy.Statement.with(index, less) },
      ] as const
    )
  );
}

function partsOf(statement: Statement): Less[] {
  return (["Action", "Resource"] as const).flatMap((key) => {
    const all = [statement[key]].flat();
    return all.map((part) =>
      [part, { ...statement, [key]: all.filter((it) => it !== part) }] as const
    );
  });
}

function conditionsOf(statement: Statement): Less[] {
  const { Condition, ...open } = statement;
  return Condition === undefined ? [] : [[JSON.stringify(Condition), open]];
}
