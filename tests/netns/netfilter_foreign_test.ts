// Tables that somebody else changes, and those of others.
import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { nft, type NftTable } from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import {
  ADDRESSES,
  handles,
  setup,
  smallTable,
} from "./netfilter_small_table.ts";
import { listTable } from "./netfilter_testing.ts";
import { netnsTest } from "./testing.ts";

/** What somebody else may do to a table, by its name; `flush ruleset` is a restart of nftables.service. */
const MEDDLING: Readonly<Record<string, string>> = {
  "adds a rule": "add rule inet small incoming drop",
  "puts a rule first": "insert rule inet small incoming drop",
  "removes all rules": "flush chain inet small incoming",
  "changes the policy":
    "chain inet small incoming { type filter hook input priority filter; policy drop; }",
  "adds a chain": "add chain inet small extra",
  "adds a set": "add set inet small extra { type ipv4_addr; }",
  "adds a counter": "add counter inet small extra",
  "puts the table to sleep": "add table inet small { flags dormant; }",
  "adds an element": "add element inet small friends { 10.9.9.9 }",
  "makes everybody an element": "add element inet small friends { * }",
  "empties a set": "flush set inet small friends",
  "deletes the table": "delete table inet small",
  "flushes the ruleset": "flush ruleset",
};

/** Of another program; some of it is nothing that this library sends. */
const FOREIGN = `table inet foreign {
  set two { type ipv4_addr . inet_service; elements = { 10.0.0.1 . 20480 } }
  set six { type ipv6_addr; elements = { fd00::1 } }
  set whole { type ipv4_addr; elements = { * } }
  counter dropped { }
  chain f {
    type filter hook forward priority -5; policy drop;
    ip saddr 10.1.2.0/24 counter name "dropped" drop
    ip6 saddr @six accept
  }
  chain other { }
}`;

for (const [what, command] of Object.entries(MEDDLING)) {
  netnsTest(
    `replaceTable() puts things right after somebody else ${what}`,
    async () => {
      await using test = await setup();
      const { temp, socket } = test;
      const table = smallTable(ADDRESSES);
      await socket.replaceTable(table);
      await temp.exec("nft", command);
      assert.equal(await socket.replaceTable(table), true);
      assert.equal(await listTable(temp, "small"), formatTable(table));
      assert.equal(await socket.replaceTable(table), false);
    },
  );
}

netnsTest(
  "describeRuleset() shows sets, chains and rules of a table that somebody else made",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    assert.deepEqual(await socket.describeRuleset(), []);
    await temp.exec("nft", FOREIGN);
    assert.deepEqual(await socket.describeRuleset(), [
      "table inet foreign",
      "  counter dropped packets 0 bytes 0",
      "  set two: 1 10.0.0.1 80.0.0.0",
      "  set six: 1 fd00::1",
      "  set whole: *",
      "  chain f type filter hook 2 priority -5 policy drop",
      "    [ meta key 15 dreg 1 ] [ cmp sreg 1 op 0 data 0x02 ] [ payload dreg 1 base 1 offset 12 len 3 ] [ cmp sreg 1 op 0 data 10.1.2.0 ] [ objref imm_name dropped imm_type 1 ] [ immediate dreg 0 data verdict 0 ]",
      "    [ meta key 15 dreg 1 ] [ cmp sreg 1 op 0 data 0x0a ] [ payload dreg 1 base 1 offset 8 len 16 ] [ lookup set six sreg 1 flags 0 ] [ immediate dreg 0 data verdict 1 ]",
      "  chain other",
    ]);
  },
);

/** One table of each family of IP, one chain of which is called by the other. */
const FAMILIES = `table ip a {
  chain last { counter packets 7 bytes 70 drop; }
  chain first { type filter hook forward priority 0; policy accept; ip saddr 10.1.2.3 jump last; }
}
table ip6 b {
  set s { type ipv6_addr; elements = { fd00::1 } }
}
table bridge c {
  chain x { }
}
table arp d {
  chain x { }
}
table netdev e {
  chain x { }
}`;

netnsTest(
  "describeRuleset() shows tables of all families, chains of hooks first",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await temp.exec("nft", FAMILIES);
    assert.deepEqual(await socket.describeRuleset(), [
      "table ip a",
      "  chain first type filter hook 2 priority 0 policy accept",
      "    [ payload dreg 1 base 1 offset 12 len 4 ] [ cmp sreg 1 op 0 data 10.1.2.3 ] [ immediate dreg 0 data verdict -3 last ]",
      "  chain last",
      "    [ counter bytes 70 packets 7 ] [ immediate dreg 0 data verdict 0 ]",
      "table ip6 b",
      "  set s: 1 fd00::1",
      "table bridge c",
      "  chain x",
      "table netdev e",
      "  chain x",
      "table arp d",
      "  chain x",
    ]);
  },
);

netnsTest(
  "describeRuleset() shows what kube-proxy's rules of iptables look for, and comments",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const rule = "-A FORWARD -m mark --mark 0x4000/0x4000 -m comment";
    await temp.exec(
      "iptables-nft",
      ...rule.split(" "),
      ...["--comment", "apps/web cluster IP", "-j", "DROP"],
    );
    const lines = await socket.describeRuleset();
    assert.deepEqual(lines.slice(0, 2), [
      "table ip filter",
      "  chain FORWARD type filter hook 2 priority 0 policy accept",
    ]);
    assert.match(
      lines[2] ?? "",
      /mask 0\.64\.0\.0 .* info "apps\/web cluster IP" .* verdict 0 \]$/,
    );
  },
);

netnsTest("describeRuleset() ends where a table is large", async () => {
  await using test = await setup();
  const { temp, socket } = test;
  const addresses = Array.from(
    { length: 1_001 },
    (_, i) => `10.9.${i >> 8}.${i & 255}`,
  );
  await temp.exec(
    "nft",
    `table ip big {
      set s { type ipv4_addr; elements = { ${addresses} } }
      chain x { ${"drop; ".repeat(2_000)} }
    }`,
  );
  const [table, set, ...rest] = await socket.describeRuleset();
  assert.equal(table, "table ip big");
  assert.match(set ?? "", /^ {2}set s: more than 1000: 10\.9\.\d/);
  assert.equal(set?.split(", ").length, 1_000);
  assert.deepEqual([rest.length, rest.at(-1)], [
    2_000,
    "  and 2 more lines",
  ]);
});

/** What somebody else may put in the place of a rule, by the rule. */
const REPLACEMENTS: readonly (readonly [old: string, replacement: string])[] = [
  ["ip saddr @friends accept", "ip saddr != @friends accept"],
  ["ip saddr @friends accept", "ip saddr @friends drop"],
  ['counter name "seen" accept', 'counter name "seen" drop comment "others"'],
  ["masquerade", "masquerade random"],
  ["masquerade", "masquerade fully-random,persistent"],
];

for (const [old, replacement] of REPLACEMENTS) {
  netnsTest(
    `replaceTable() notices that "${old}" became "${replacement}"`,
    async () => {
      await using test = await setup();
      const { temp, socket } = test;
      const table = withMasquerade(smallTable(ADDRESSES));
      await socket.replaceTable(table);
      const line = (await handles(temp, "small")).split("\n")
        .find((each) => each.trim().startsWith(old)) ?? "";
      const handle = /# handle (\d+)$/.exec(line)?.[1] ?? "";
      const chain = old === "masquerade" ? "leaving" : "incoming";
      await temp.exec(
        "nft",
        `replace rule inet small ${chain} handle ${handle} ${replacement}`,
      );
      assert.equal(await socket.replaceTable(table), true);
      assert.equal(await listTable(temp, "small"), formatTable(table));
      assert.equal(await socket.replaceTable(table), false);
    },
  );
}

function withMasquerade(table: NftTable): NftTable {
  const leaving = {
    name: "leaving" as const,
    type: "nat" as const,
    hook: "postrouting" as const,
    priority: 100,
    policy: "accept" as const,
    rules: [nft.rule([nft.masquerade()])],
  };
  return { ...table, chains: [...table.chains, leaving] };
}

netnsTest("a set that has room for no more is recreated", async () => {
  await using test = await setup();
  const { temp, socket } = test;
  const table = smallTable(ADDRESSES.slice(0, 1));
  const limited = formatTable(table)
    .replace("type ipv4_addr", "type ipv4_addr\n\t\tsize 2");
  await temp.exec("nft", limited);
  assert.equal(await listTable(temp, "small"), limited);
  const next = smallTable(ADDRESSES);
  assert.equal(await socket.replaceTable(next), true);
  assert.equal(await listTable(temp, "small"), formatTable(next));
});

netnsTest(
  "tables of others stay as they are, also those that share the name",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const table = smallTable(ADDRESSES);
    const others = `table ip small {
	set friends {
		type ipv4_addr
		elements = { 192.0.2.1 }
	}

	chain incoming {
		type filter hook input priority filter; policy accept;
		ip saddr @friends counter packets 7 bytes 70 accept
	}
}
table inet filter {
	counter seen {
		packets 5 bytes 50
	}

	chain input {
		type filter hook input priority filter; policy accept;
		iifname "eth9" counter name "seen" drop
	}
}
`;
    await temp.exec("nft", others);
    await socket.replaceTable(table);
    assert.equal(
      await temp.exec("nft", "list", "ruleset"),
      others + formatTable(table),
    );
    await socket.changeSet({
      table: "small",
      set: "friends",
      remove: [[Address.parse("192.0.2.1")]],
    });
    await socket.replaceTable({ ...table, chains: [] });
    await socket.deleteTable("small");
    assert.equal(await temp.exec("nft", "list", "ruleset"), others);
  },
);

netnsTest(
  "a table of our name that somebody else made becomes ours",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await temp.exec(
      "nft",
      `table inet small {
      map names { type ipv4_addr : mark; elements = { 10.0.0.1 : 1 } }
      set friends { type ipv6_addr; flags interval; elements = { fd00::/64 } }
      counter seen { packets 3 bytes 30 }
      chain incoming { type filter hook prerouting priority -5; ip6 saddr @friends drop; jump more; }
      chain more { meta mark set ip saddr map @names; }
    }`,
    );
    const table = smallTable(ADDRESSES);
    assert.equal(await socket.replaceTable(table), true);
    assert.equal(
      await listTable(temp, "small"),
      formatTable(table).replace("packets 0 bytes 0", "packets 3 bytes 30"),
    );
  },
);
