import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { formatTable } from "./nft_table.ts";
import { formatRule } from "../../../lib/netlink/netfilter/text/format_rule.ts";
import type {
  NftChain,
  NftStatement,
} from "../../../lib/netlink/netfilter/model/model.ts";
import * as nft from "../../../lib/netlink/netfilter/model/statements.ts";
import { EXAMPLE_TABLE } from "../../../lib/netlink/netfilter/testing.ts";

Deno.test("formatTable() prints what nft was recorded to list", async () => {
  const golden = new URL(
    "../../golden/netfilter/examples.nft",
    import.meta.url,
  );
  assert.equal(formatTable(EXAMPLE_TABLE), await Deno.readTextFile(golden));
});

Deno.test("formatTable() names priorities as nft does", () => {
  const priority = (hook: NftChain["hook"], priority: number) => {
    const chain = { name: "c", hook, priority, type: "filter" } as const;
    const text = formatTable({
      family: "inet",
      name: "t",
      counters: [],
      sets: [],
      chains: [{ ...chain, policy: "accept", rules: [] }],
    });
    return /priority (.*?);/.exec(text)?.[1];
  };
  assert.equal(priority("prerouting", -100), "dstnat");
  assert.equal(priority("output", -100), "-100");
  assert.equal(priority("postrouting", 100), "srcnat");
  assert.equal(priority("input", 100), "100");
  assert.equal(priority("input", -151), "mangle - 1");
  assert.equal(priority("input", 10), "filter + 10");
  assert.equal(priority("input", 11), "11");
  assert.equal(priority("postrouting", 109), "srcnat + 9");
});

Deno.test("formatRule() leaves out tests that follow from others, and only those", () => {
  const v4 = Address.parse("192.0.2.1");
  const cases: [NftStatement[], string][] = [
    [
      [nft.nfproto("ipv4"), nft.iifname("a"), nft.saddr(v4)],
      'iifname "a" ip saddr 192.0.2.1',
    ],
    [
      [nft.saddr(v4), nft.nfproto("ipv4")],
      "ip saddr 192.0.2.1",
    ],
    [[nft.nfproto("ipv4"), nft.iifname("a")], 'meta nfproto ipv4 iifname "a"'],
    [[nft.nfproto("ipv6"), nft.l4proto("ipv6-icmp")], "meta l4proto ipv6-icmp"],
    [
      [nft.nfproto("ipv6"), nft.l4proto("udp")],
      "meta nfproto ipv6 meta l4proto udp",
    ],
    [[nft.l4proto("udp"), nft.udpDport(1)], "udp dport 1"],
    [
      [nft.l4proto("tcp"), nft.tcpNotSyn(), nft.tcpSportBelow(1)],
      "tcp flags ! syn tcp sport < 1",
    ],
    [
      [nft.l4proto("udp"), nft.ctState("new", "invalid")],
      "meta l4proto udp ct state invalid,new",
    ],
  ];
  for (const [statements, text] of cases) {
    assert.equal(formatRule(nft.rule(statements)), text);
  }
});
