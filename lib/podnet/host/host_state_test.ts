import assert from "node:assert/strict";
import { FAMILIES, type Family, Prefix } from "../../inet/mod.ts";
import type { Rule } from "../../netlink/mod.ts";
import { type FoundHost, lackText, planHost } from "./host_state.ts";

const SETTINGS = { tableId: 116, rulePriority: 2000 };

function rule(family: Family, more: Partial<Rule> = {}): Rule {
  return { family, priority: 2000, table: 116, ...more };
}

function host(
  { rules = {}, forwarding = "1", families = FAMILIES }: {
    readonly rules?: Partial<Record<Family, readonly Rule[]>>;
    readonly forwarding?: string;
    readonly families?: readonly Family[];
  } = {},
): FoundHost {
  return {
    rules: new Map(families.map((f) => [f, rules[f] ?? [rule(f)]])),
    forwarding: new Map(families.map((f) => [f, forwarding])),
  };
}

Deno.test("planHost() finds nothing to do where all is there", () => {
  assert.deepEqual(planHost(SETTINGS, host()), { lacks: [], problems: [] });
});

Deno.test("planHost() names what is missing, of each family", () => {
  const found = host({ rules: { ipv4: [], ipv6: [] }, forwarding: "0" });
  const { lacks, problems } = planHost(SETTINGS, found);
  assert.deepEqual(lacks.map(lackText), [
    'sysctl "net.ipv4.ip_forward" is 0',
    'ipv4 rule "2000: from all lookup 116" is missing',
    'sysctl "net.ipv6.conf.all.forwarding" is 0',
    'ipv6 rule "2000: from all lookup 116" is missing',
  ]);
  assert.deepEqual(problems, []);
});

Deno.test("planHost() leaves out a family that the kernel lacks", () => {
  const found = host({ families: ["ipv4"], rules: { ipv4: [] } });
  const { lacks } = planHost(SETTINGS, found);
  assert.deepEqual(lacks.map(({ family }) => family), ["ipv4"]);
});

Deno.test("planHost() does not touch a foreign rule of our priority, and names it", () => {
  for (
    const foreign of [
      rule("ipv4", { table: 99 }),
      // With a selector it does less than ours.
      rule("ipv4", { source: Prefix.parse("10.0.0.0/8") }),
      rule("ipv4", { iif: "eth0" }),
      rule("ipv4", { fwmark: 1 }),
      rule("ipv4", { table: 0 }),
      rule("ipv4", { hasMore: true }),
    ]
  ) {
    const found = host({ rules: { ipv4: [foreign] } });
    const { lacks, problems } = planHost(SETTINGS, found);
    assert.deepEqual(lacks, []);
    assert.equal(problems.length, 1);
    assert.equal(problems[0]?.family, "ipv4");
    assert.match(problems[0]?.message ?? "", /priority 2000 has a rule/);
  }
  const beside = host({
    rules: { ipv4: [rule("ipv4", { table: 99 }), rule("ipv4")] },
  });
  assert.deepEqual(planHost(SETTINGS, beside), { lacks: [], problems: [] });
});
