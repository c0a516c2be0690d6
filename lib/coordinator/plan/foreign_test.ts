import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Route, Rule } from "../../netlink/mod.ts";
import type { Step } from "../state/steps.ts";
import { linkOf, type NetworkState } from "../testing.ts";
import { keepForeign } from "./foreign.ts";

const NET1 = 4;
const [OURS, COILD, THEIRS] = [32, 30, 3] as const;

function rule(changes: Partial<Rule> = {}): Rule {
  return {
    family: "ipv4",
    priority: 1101,
    table: 101,
    protocol: THEIRS,
    source: Prefix.parse("10.7.0.100/32"),
    ...changes,
  };
}

function route(changes: Partial<Route> = {}): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse("10.9.0.0/24"),
    index: NET1,
    table: 101,
    protocol: THEIRS,
    scope: "link",
    type: "unicast",
    ...changes,
  };
}

const { index: _, ...ROUTE } = route({ protocol: OURS });

/** A route in the place of {@linkcode route}, and others. */
const IN_PLACE: Step = {
  kind: "route",
  place: "pod",
  route: { ...ROUTE, device: "net1" },
};
const ON_HOST: Step = { ...IN_PLACE, place: "host" };
const ELSEWHERE: Step = {
  ...IN_PLACE,
  route: { ...IN_PLACE.route, destination: Prefix.parse("10.8.0.0/24") },
};
const RULE: Step = {
  kind: "rule",
  place: "pod",
  rule: rule({ protocol: OURS }),
};

/** What is found beside these steps, which may have its place. */
function found(
  { pod = {}, host = {}, steps = [] }: {
    readonly pod?: Partial<NetworkState>;
    readonly host?: Partial<NetworkState>;
    readonly steps?: readonly Step[];
  },
) {
  const links = [linkOf(NET1, { name: "net1" })];
  const none = { links, addresses: [], rules: [], routes: [], neighbours: [] };
  const sides = { pod: { ...none, ...pod }, host: { ...none, ...host } };
  return keepForeign(steps, sides);
}

/** Those of the rules that are foreign in the pod, or on the host. */
function foreignOf(rules: readonly Rule[], place: "pod" | "host" = "pod") {
  return found({ [place]: { rules } }).found.length;
}

Deno.test("keepForeign() finds rules of other programs at the coordinator's priorities", () => {
  assert.deepEqual(found({ pod: { rules: [rule()] } }).found, [
    "pod: rule pref 1101 from 10.7.0.100/32 lookup 101 proto 3",
  ]);
  const atHost = [rule({ priority: 1000 })];
  assert.deepEqual(found({ host: { rules: atHost } }).found, [
    "host: rule pref 1000 from 10.7.0.100/32 lookup 101 proto 3",
  ]);
  for (const priority of [1000, 1100, 1200]) {
    assert.equal(foreignOf([rule({ priority })]), 1, `${priority}`);
  }
  for (const priority of [999, 1001, 1099, 1201]) {
    assert.equal(foreignOf([rule({ priority })]), 0, `${priority}`);
  }
  assert.equal(foreignOf([rule()], "host"), 0);
});

Deno.test("keepForeign() passes over rules of the coordinator and of coild, and those that say what a step wants", () => {
  const own = [rule({ protocol: OURS }), rule({ protocol: COILD })];
  assert.equal(foreignOf(own), 0);
  const rules = [rule()];
  const same = found({ pod: { rules }, steps: [RULE] });
  assert.deepEqual([same.found, same.steps], [[], [RULE]]);
  const steps: Step[] = [{ ...RULE, place: "host" }];
  assert.equal(found({ pod: { rules }, steps }).found.length, 1);
  const other: Step = { ...RULE, rule: rule({ table: 102 }) };
  assert.equal(found({ pod: { rules }, steps: [other] }).found.length, 1);
});

Deno.test("keepForeign() leaves other programs' routes in the tables of interfaces, and makes none in their place", () => {
  const all = { pod: { routes: [route()] }, steps: [IN_PLACE, ON_HOST] };
  const { found: texts, steps } = found(all);
  assert.deepEqual(texts, [
    "pod: route 10.9.0.0/24 dev net1 table 101 proto 3 scope link",
  ]);
  assert.deepEqual(steps, [ON_HOST]);
  const rest = found({ ...all, steps: [ELSEWHERE, RULE] });
  assert.deepEqual(rest.steps, [ELSEWHERE, RULE]);
});

Deno.test("keepForeign() makes its routes in place of its own, and those of the main table or of other kinds", () => {
  const isKept = (changes: Partial<Route>) => {
    const { found: texts, steps } = found({
      pod: { routes: [route(changes)] },
      steps: [IN_PLACE],
    });
    assert.equal(texts.length, 1 - steps.length);
    return steps.length === 0;
  };
  assert.ok(isKept({}));
  assert.ok(!isKept({ protocol: OURS }));
  assert.ok(!isKept({ protocol: COILD }));
  assert.ok(!isKept({ type: "local" }));
  const isFound = (table: number) =>
    found({ pod: { routes: [route({ table })] } }).found.length > 0;
  assert.deepEqual([99, 100, 200, 201, 254].map(isFound), [
    false,
    true,
    true,
    false,
    false,
  ]);
});
