import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Rule } from "../../netlink/mod.ts";
import { isClientRule, originatingRule, planRules } from "./rules.ts";

const PREFIXES = [Prefix.parse("10.0.0.0/8"), Prefix.parse("172.16.0.0/12")];

Deno.test("isClientRule() knows all that are made here", () => {
  for (const rule of planRules("ipv4", PREFIXES)) {
    assert.ok(isClientRule(rule), JSON.stringify(rule));
  }
  for (const rule of planRules("ipv6", [Prefix.parse("fc00::/7")])) {
    assert.ok(isClientRule(rule), JSON.stringify(rule));
  }
  assert.ok(isClientRule(originatingRule("ipv4", 3)));
});

const FOREIGN: Readonly<Record<string, Partial<Rule>>> = {
  "a gateway's": { priority: 2000, table: 118, iif: "eth0" },
  "coild's on the host": { priority: 2000, table: 116 },
  "one that looks up our table at another priority": {
    priority: 100,
    table: 118,
  },
  "one of our priority for another table": { priority: 1900, table: 50 },
  "one for a source": {
    priority: 2000,
    table: 254,
    source: Prefix.parse("10.0.0.0/8"),
  },
  "one for a mark": { priority: 1900, table: 117, fwmark: 5 },
  "the kernel's own": { priority: 32766, table: 254 },
  "one for a mark that is no interface's": {
    priority: 1000,
    fwmark: 3,
    table: 100,
  },
  "one without a mark": { priority: 1000, table: 1003 },
  "one for all destinations at the priority of link-local ones": {
    priority: 1800,
    table: 254,
  },
  "one for the main table at the priority of the wide one": {
    priority: 2100,
    table: 254,
  },
  "one for another link-local network": {
    priority: 1800,
    destination: Prefix.parse("169.254.1.0/24"),
    table: 254,
  },
};
for (const [name, rule] of Object.entries(FOREIGN)) {
  Deno.test(`isClientRule() leaves ${name} alone`, () => {
    const whole = { family: "ipv4", priority: 0, table: 0, ...rule } as const;
    assert.ok(!isClientRule(whole));
  });
}
