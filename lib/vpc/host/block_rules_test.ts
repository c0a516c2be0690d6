import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "../../inet/mod.ts";
import { VPC_BLOCK_END_PRIORITY } from "../../names/mod.ts";
import type { Rule } from "../../netlink/mod.ts";
import { type BlockRule, groupBlockRules } from "./block_rules.ts";

/** Networks of a subnet's size, the largest first. */
const SUBNETS = ["10.1.0.0/16", "10.1.16.0/20", "10.1.17.0/24"]
  .map(Prefix.parse);
/** As many as the largest instance types have. */
const MOST_BLOCKS = 735;

function ruleOf(source: Prefix, table: number): BlockRule {
  return { family: "ipv4", priority: 0, table, protocol: 33, source };
}

/** Blocks without an address in common: none, few or many. */
const blocks: fc.Arbitrary<BlockRule[]> = fc.tuple(
  fc.constantFrom(...SUBNETS),
  fc.integer({ min: 0, max: 150 }),
).chain(([subnet, count]) => {
  const networks = Number(subnet.size) / 16;
  const length = Math.min(count, networks);
  return fc.uniqueArray(
    fc.record({
      network: fc.nat(networks - 1),
      isPrefix: fc.boolean(),
      table: fc.integer({ min: 10_001, max: 10_014 }),
    }),
    {
      selector: ({ network }) => network,
      minLength: length,
      maxLength: length,
    },
  ).map((grants) =>
    grants.flatMap(({ network, isPrefix, table }) => {
      const prefix = subnet.subnet(28, BigInt(network));
      if (isPrefix) return [ruleOf(prefix, table)];
      // Single addresses are often neighbours.
      return [4n, 9n].map((n) => ruleOf(Prefix.host(prefix.nth(n)), table));
    })
  );
});

/** What the kernel does with a packet: the table that decides, and how many rules it has tried. */
function walk(
  rules: readonly Rule[],
  source: Address,
): { table: number | undefined; tried: number } {
  let tried = 0;
  for (let at = 0; at < rules.length;) {
    const rule = rules[at];
    assert.ok(rule);
    tried += 1;
    at += 1;
    if (rule.source?.contains(source) === false) continue;
    if (rule.goto !== undefined) {
      assert.ok(rule.goto > rule.priority, "the kernel goes on only");
      const target = rules.findIndex(({ priority }) => priority === rule.goto);
      if (target >= 0) at = target;
    } else if (rule.table !== 0) return { table: rule.table, tried };
  }
  return { table: undefined, tried };
}

/** In the kernel's order: rules of one priority as they were added. */
function inOrder(rules: readonly Rule[]): Rule[] {
  return rules.toSorted((a, b) => a.priority - b.priority);
}

function assertRight(rules: readonly Rule[], all: readonly BlockRule[]): void {
  for (const { source, table } of all) {
    assert.equal(walk(rules, source.address).table, table, `${source}`);
  }
}

Deno.test("groupBlockRules() leaves few rules in a row", () => {
  const rules = Array.from(
    { length: 16 },
    (_, n) => ruleOf(Prefix.parse(`10.1.${16 * n}.1/32`), 10_001),
  );
  assert.deepEqual(
    groupBlockRules(rules),
    rules.map((rule) => ({ ...rule, priority: 1536 })),
  );
  assert.deepEqual(groupBlockRules([]), []);
});

Deno.test("groupBlockRules() sends each block to its table, and nothing else, with and without the rules by which packets skip what is left of a row", () => {
  fc.assert(
    fc.property(blocks, fc.infiniteStream(fc.boolean()), (all, isThere) => {
      const rules = inOrder(groupBlockRules(all));
      assertRight(rules, all);
      const free = SUBNETS.map((subnet) => subnet.nth(7n)).filter((address) =>
        !all.some(({ source }) => source.contains(address))
      );
      for (const address of free) {
        assert.equal(walk(rules, address).table, undefined);
      }
      const some = rules.filter((rule) =>
        rule.goto !== VPC_BLOCK_END_PRIORITY || isThere.next().value
      );
      assertRight(some, all);
    }),
    { numRuns: 60 },
  );
});

Deno.test("groupBlockRules() goes from any blocks to any others without a moment at which a block that stays has no table", () => {
  const part = fc.integer({ min: 0, max: 100 });
  fc.assert(
    fc.property(blocks, part, part, (all, first, second) => {
      const [from, to] = [first, second].map((percent) =>
        all.slice(0, Math.round(all.length * percent / 100))
      );
      assert.ok(from && to);
      const stay = from.length < to.length ? from : to;
      const keyOf = (rule: Rule) => JSON.stringify(rule);
      const [before, after] = [from, to].map(groupBlockRules);
      assert.ok(before && after);
      const kept = new Set(before.map(keyOf));
      const wanted = new Set(after.map(keyOf));
      let rules = [...before];
      for (const rule of after) {
        if (kept.has(keyOf(rule))) continue;
        rules.push(rule);
        assertRight(inOrder(rules), stay);
      }
      // In the order in which the kernel lists them.
      for (const rule of inOrder(before)) {
        if (wanted.has(keyOf(rule))) continue;
        rules = rules.filter((other) => other !== rule);
        assertRight(inOrder(rules), stay);
      }
    }),
    { numRuns: 20 },
  );
});

Deno.test("groupBlockRules() has few rules for a packet to try, however many blocks there are", () => {
  for (const subnet of SUBNETS.slice(0, 2)) {
    for (const step of [1n, 5n]) {
      const all = Array.from(
        { length: MOST_BLOCKS },
        (_, n) =>
          ruleOf(
            Prefix.host(subnet.nth(4n + step * BigInt(n))),
            10_001 + n % 14,
          ),
      );
      const rules = inOrder(groupBlockRules(all));
      const tried = all.map(({ source }) => walk(rules, source.address).tried);
      assert.ok(Math.max(...tried) <= 26, `${Math.max(...tried)}`);
      const elsewhere = walk(rules, Address.parse("10.2.0.1")).tried;
      assert.ok(elsewhere <= 6, `${elsewhere}`);
    }
  }
});
