import assert from "node:assert/strict";
import { Address, type Family, Prefix } from "../../inet/mod.ts";
import type { Link, Route, Rule } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { diffVpcHost, type FoundVpcHost } from "./host_diff.ts";
import { planVpcHost } from "./host_plan.ts";
import { PRIMARY, SECONDARY, settingsOf } from "./testing.ts";

const FAMILIES: readonly Family[] = ["ipv4", "ipv6"];
const SETTINGS = settingsOf({ families: FAMILIES });

function linkOf(index: number, name: string, mac: string): Link {
  return {
    index,
    name,
    mac,
    mtu: 9001,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 1,
    ipv4Conf: { rpFilter: 2, arpFilter: false },
  };
}

const LINKS = [
  linkOf(2, "eth0", PRIMARY.mac),
  linkOf(3, "eth1", SECONDARY.mac),
];
const PLAN = planVpcHost(SETTINGS, { links: LINKS, families: FAMILIES });

const ROUTES: readonly Route[] = PLAN.routes.map((route) => ({
  ...route,
  destination: route.destination,
  table: route.table ?? 254,
  protocol: route.protocol ?? 0,
  scope: "global",
  type: "unicast",
  metric: route.family === "ipv6" ? 1024 : undefined,
}));

/** A node that has everything. */
const DONE: FoundVpcHost = {
  families: FAMILIES,
  links: LINKS,
  addresses: [
    addressEntry(2, "10.0.1.10/24"),
    addressEntry(3, "10.0.1.20/24"),
    addressEntry(3, "2001:db8:1::20/24"),
  ],
  routes: ROUTES,
  rules: PLAN.rules,
  acceptRa: "2",
};

/** What is to be done to a node with these differences, as text. */
function changesOf(
  found: Partial<FoundVpcHost>,
  settings = SETTINGS,
): Record<"add" | "remove" | "problems", readonly string[]> & {
  readonly acceptRa: string | undefined;
} {
  const all = { ...DONE, ...found };
  const plan = planVpcHost(settings, all);
  const changes = diffVpcHost(plan, all, settings);
  return {
    add: changes.add.map(({ text }) => text),
    remove: changes.remove.map(({ text }) => text),
    acceptRa: changes.acceptRa,
    problems: changes.problems.map(({ message }) => message),
  };
}

const NOTHING = { add: [], remove: [], acceptRa: undefined, problems: [] };

Deno.test("diffVpcHost() has nothing to do where all is there", () => {
  assert.deepEqual(changesOf({}), NOTHING);
});

Deno.test("diffVpcHost() changes of a link what differs, and not the addresses of the primary ENI", () => {
  const [eth0 = linkOf(0, "", ""), eth1 = eth0] = LINKS;
  const strict = { rpFilter: 1, arpFilter: false };
  const links = [
    { ...eth0, mtu: 1500 },
    { ...eth1, up: false, ipv4Conf: strict },
  ];
  assert.deepEqual(changesOf({ links, acceptRa: "1", addresses: [] }), {
    ...NOTHING,
    add: [
      'set link "eth0" mtu 9001',
      'set link "eth1" up, rp_filter 2',
      'add address "10.0.1.20/32" to link 3',
      'add address "2001:db8:1::20/128" to link 3',
    ],
    acceptRa: "eth0",
  });
});

Deno.test("diffVpcHost() replaces routes that lead elsewhere, and removes what is not planned", () => {
  const elsewhere = ROUTES.map((route, i) =>
    i === 1
      ? { ...route, gateway: Address.parse("10.0.1.2") }
      : i === 2
      ? { ...route, index: 9 }
      : i === 3
      ? { ...route, type: "blackhole" as const }
      : route
  );
  assert.deepEqual(changesOf({ routes: elsewhere }), {
    ...NOTHING,
    add: [
      'replace route "10.0.0.0/16" to table 10001',
      'replace route "100.64.0.0/16" to table 10001',
      'replace route "default" to table 10001',
    ],
    remove: [
      'delete route "10.0.0.0/16" from table 10001',
      'delete route "100.64.0.0/16" from table 10001',
      'delete route "default" from table 10001',
    ],
  });
});

Deno.test("diffVpcHost() removes the kernel's routes by a secondary ENI from the main table, but for link-local ones", () => {
  const kernels = (index: number, text: string, table = 254): Route => {
    const destination = Prefix.parse(text);
    const { family } = destination;
    const common = { scope: "link", type: "unicast", protocol: 2 } as const;
    return { ...common, family, destination, index, table };
  };
  const routes = [
    ...ROUTES,
    kernels(2, "10.0.1.0/24"),
    kernels(3, "10.0.1.0/24"),
    kernels(3, "10.0.1.20/32", 255),
    kernels(3, "fe80::/64"),
    kernels(3, "2001:db8:1::/64"),
    { ...kernels(3, "10.0.0.0/8"), protocol: 4 },
  ];
  assert.deepEqual(changesOf({ routes }), {
    ...NOTHING,
    remove: [
      'delete route "10.0.1.0/24" from table 254',
      'delete route "2001:db8:1::/64" from table 254',
    ],
  });
});

/** A rule of ours at that priority, with changes. */
function ruleAt(priority: number, changes: Partial<Rule> = {}): Rule {
  const rule = PLAN.rules.find((one) => one.priority === priority);
  assert.ok(rule);
  return { ...rule, ...changes };
}

Deno.test("diffVpcHost() adds rules that are missing, and deletes only its own", () => {
  const source = Prefix.parse("10.0.5.0/28");
  const rules: Rule[] = [
    ...PLAN.rules.filter(({ priority }) => priority !== 32765),
    ruleAt(1536, { source }),
    ruleAt(1536, { source: Prefix.parse("10.0.6.0/28"), protocol: 3 }),
    // At priorities of others.
    ruleAt(1536, { priority: 1535, source }),
    ruleAt(1024, { priority: 512, protocol: 3 }),
  ];
  assert.deepEqual(changesOf({ rules }), {
    ...NOTHING,
    add: [
      'add ipv4 rule "32765: from 10.0.1.20/32 lookup 10001 proto 33"',
      'add ipv6 rule "32765: from 2001:db8:1::20/128 lookup 10001 proto 33"',
    ],
    remove: ['delete ipv4 rule "1536: from 10.0.5.0/28 lookup 10001 proto 33"'],
    problems: [
      `Cannot be sure how ipv4 packets are routed: ipv4 rule "1536: from 10.0.6.0/28 lookup 10001 proto 3" is not Coil's; delete it, unless it is there on purpose`,
    ],
  });
});

/** A node whose rules are in groups, and these in the kernel's order. */
function grouped() {
  const blocks = Array.from(
    { length: 20 },
    (_, n) => Prefix.parse(`10.0.${n % 2}.${100 + n}/32`),
  );
  const settings = settingsOf({
    families: FAMILIES,
    enis: [PRIMARY, { ...SECONDARY, blocks }],
  });
  const { rules } = planVpcHost(settings, { links: LINKS, families: FAMILIES });
  return {
    settings,
    rules: rules.toSorted((a, b) => a.priority - b.priority),
  };
}

Deno.test("diffVpcHost() leaves rules and routes of an ENI that is not seen for a moment, and no others", () => {
  const settings = settingsOf({ families: FAMILIES, enis: [PRIMARY] });
  const other = ruleAt(1536, { table: 10_002 });
  const rules = [...PLAN.rules, other];
  const unseen = { ...settings, unseenDevices: [1] };
  assert.deepEqual(changesOf({ rules }, unseen), {
    ...NOTHING,
    remove: [
      'delete ipv4 rule "1536: from 10.0.1.112/28 lookup 10002 proto 33"',
    ],
  });
  const { remove } = changesOf({ rules }, settings);
  assert.equal(remove.length, 6 + ROUTES.length);
  const all = grouped();
  assert.deepEqual(
    changesOf({ rules: all.rules }, { ...unseen, families: FAMILIES }).remove,
    [],
  );
});

Deno.test("diffVpcHost() removes what leads to a group of rules before the group", () => {
  const { remove } = changesOf({ rules: grouped().rules });
  const priorities = remove.map((text) => Number(/"(\d+):/.exec(text)?.[1]));
  assert.equal(new Set(priorities).size, 15);
  assert.deepEqual(priorities, priorities.toSorted((a, b) => a - b));
});

Deno.test("diffVpcHost() puts rules that skip others right, and reports those of others among them", () => {
  const { settings, rules } = grouped();
  const found = rules.map((rule) =>
    rule.goto === 2600 ? { ...rule, goto: 2601 } : rule
  );
  const nothing = { family: "ipv4", table: 0, isNop: true } as const;
  const others: Rule[] = [2599, 2601].map((priority) => (
    { ...nothing, priority }
  ));
  const { add, remove, problems } = changesOf({
    rules: [...found, ...others],
  }, settings);
  const ends = [1537, 1707, 1709, 2231, 2233, 2263, 2265];
  assert.deepEqual(
    add.toSorted(),
    ends.map((end) => `add ipv4 rule "${end}: from all goto 2600 proto 33"`),
  );
  assert.deepEqual(
    remove,
    ends.map((end) => `delete ipv4 rule "${end}: from all goto 2601 proto 33"`),
  );
  assert.equal(problems.length, 1);
  assert.match(problems[0] ?? "", /"2599: from all nop" is not Coil's/);
  assert.deepEqual(
    changesOf({ rules: [...PLAN.rules, ...others] }),
    NOTHING,
    "without groups",
  );
});

Deno.test("diffVpcHost() takes a rule that another program made just so for what is planned", () => {
  const rules = PLAN.rules.map((rule) => ({ ...rule, protocol: 3 }));
  assert.deepEqual(changesOf({ rules }), NOTHING);
});

Deno.test("diffVpcHost() takes a rule with more to it for another one", () => {
  const changes: readonly Partial<Rule>[] = [
    { hasMore: true },
    { iif: "eth0" },
    { destination: Prefix.parse("10.0.0.0/8") },
    { fwmark: 1 },
  ];
  for (const change of changes) {
    const rules = PLAN.rules.map((rule) =>
      rule.priority === 32765 ? { ...rule, protocol: 3, ...change } : rule
    );
    const { add, remove, problems } = changesOf({ rules });
    assert.equal(add.length, 2, JSON.stringify(change));
    assert.deepEqual(remove, []);
    assert.equal(problems.length, 2);
  }
});

Deno.test("diffVpcHost() reports addresses of blocks on ENIs, but not an ENI's own in its block", () => {
  const block = Prefix.parse("10.0.1.16/28");
  const enis = [PRIMARY, { ...SECONDARY, blocks: [block] }];
  const settings = settingsOf({ enis });
  const addresses = [
    ...DONE.addresses,
    addressEntry(2, "10.0.1.21/24"),
    addressEntry(9, "10.0.1.22/24"),
  ];
  const { problems } = changesOf({ addresses }, settings);
  assert.deepEqual(problems, [
    'Cannot give address "10.0.1.21" to a pod: link "eth0" of the host has it, so its packets stay on the host; remove it there, and stop the program that adds it',
  ]);
});
