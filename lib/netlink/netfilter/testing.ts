/**
 * For tests: rules that together have every statement, and how their bytes are
 * written down in `tests/golden/netfilter`.
 *
 * @module
 */

import { Address, Prefix } from "../../inet/mod.ts";
import { MessageWriter } from "../message/message_writer.ts";
import { writeTree } from "./wire/attributes.ts";
import { formatRule } from "./text/format_rule.ts";
import type {
  NftChain,
  NftRule,
  NftStatement,
  NftTable,
} from "./model/model.ts";
import { encodeRule } from "./wire/rule_encoder.ts";
import * as nft from "./model/statements.ts";

/** The packet's source is in that prefix, or is not. */
export function saddrIn(
  prefix: Prefix,
  { not = false }: { readonly not?: boolean } = {},
): NftStatement {
  const field = nft.saddrField(prefix.family);
  return { kind: "prefix", field, prefix, not };
}

const V4 = Address.parse("192.0.2.1");
const V6 = Address.parse("2001:db8::1");

/** The chains of the table of examples, with their rules. */
const EXAMPLES: readonly NftChain[] = [
  {
    name: "raw",
    type: "filter",
    hook: "prerouting",
    priority: -300,
    policy: "accept",
    rules: [
      nft.rule([nft.udpDport(5555), nft.notrack()]),
      nft.rule([nft.l4proto("ipencap"), nft.drop()]),
      nft.rule([nft.l4proto("ipv6"), nft.drop()]),
      nft.rule([nft.iifgroup(30115, { not: true }), nft.accept()]),
      nft.rule([nft.iifgroup(7), nft.reversePath("exists"), nft.accept()]),
      nft.rule([nft.icmpv6Type("nd-router-solicit"), nft.drop()]),
      nft.rule([nft.icmpv6Type("nd-router-advert"), nft.drop()]),
      nft.rule([nft.icmpv6Type("nd-redirect"), nft.drop()]),
      nft.rule([
        nft.nfproto("ipv6"),
        nft.reversePath("missing"),
        nft.counter("refused"),
        nft.drop(),
      ]),
    ],
  },
  {
    name: "pre",
    type: "filter",
    hook: "prerouting",
    priority: -150,
    policy: "accept",
    rules: [
      nft.rule([
        nft.udpDport(5555),
        nft.inSet(["ip saddr", "inner ip saddr"], "pairs4"),
        nft.accept(),
      ], { comment: "clients" }),
      nft.rule([
        nft.udpDport(5555),
        nft.inSet(["ip6 saddr", "inner ip6 saddr"], "pairs6"),
        nft.accept(),
      ]),
      nft.rule([
        nft.udpDport(5555),
        nft.inSet(["ip saddr", "inner ip daddr"], "pairs4"),
        nft.innerSaddr(V4),
        nft.accept(),
      ]),
      nft.rule([
        nft.udpDport(5555),
        nft.inSet(["ip6 saddr", "inner ip6 daddr"], "pairs6"),
        nft.innerSaddr(V6),
        nft.accept(),
      ]),
      nft.rule([nft.udpDport(5555), nft.counter("refused"), nft.drop()]),
      nft.rule([
        nft.udpDport(5555),
        nft.inSet(["ip saddr"], "addresses4", { not: true }),
        nft.drop(),
      ]),
      nft.rule([nft.inSet(["ip6 daddr"], "addresses6"), nft.accept()]),
      nft.rule([
        nft.inSet(["ip daddr", "iifname", "meta mark"], "triples"),
        nft.accept(),
      ]),
      nft.rule([nft.inSet(["ct mark"], "marks"), nft.accept()]),
    ],
  },
  {
    name: "in",
    type: "filter",
    hook: "input",
    priority: -150,
    policy: "accept",
    rules: [
      nft.rule([
        nft.inSet(["iifname"], "links"),
        nft.ctDirection("original"),
        nft.ctState("new", "established", "related"),
        nft.setCtMark(7),
      ]),
      nft.rule([nft.ctDirection("reply"), nft.metaMark(0xffffffff)]),
      nft.rule([nft.daddr(V4), nft.setCtMarkBits(0x80)]),
      nft.rule([nft.ctMarkBits(0x80), nft.setMetaMarkBits(0x80)]),
      nft.rule([nft.ctState("untracked"), nft.accept()]),
    ],
  },
  {
    name: "forward",
    type: "filter",
    hook: "forward",
    priority: 0,
    policy: "drop",
    rules: [
      nft.rule([
        nft.oifname("eth0"),
        nft.ctState("invalid"),
        nft.counter("invalid"),
        nft.drop(),
      ]),
      nft.rule([nft.iifname("tunnel*"), nft.accept()]),
      nft.rule([
        nft.oifname("a2345678901234*", { not: true }),
        nft.clampMss(),
      ]),
      nft.rule([nft.iifname("a23456789012345", { not: true }), nft.drop()]),
      nft.rule([nft.saddr(V4), nft.daddr(V4, { not: true }), nft.accept()]),
      nft.rule([nft.saddr(V6, { not: true }), nft.daddr(V6), nft.accept()]),
      nft.rule([nft.daddrIn(Prefix.parse("10.0.0.0/16")), nft.accept()]),
      nft.rule([
        nft.daddrIn(Prefix.parse("10.0.97.16/28"), { not: true }),
        nft.accept(),
      ]),
      nft.rule([saddrIn(Prefix.parse("2001:db8::/61")), nft.accept()]),
      nft.rule([nft.nfproto("ipv4"), nft.reject("admin-prohibited")]),
      nft.rule([nft.nfproto("ipv6"), nft.reject("host-unreachable")]),
      nft.rule([nft.iifname("tunnel*"), nft.setSaddr(V4)]),
      nft.rule([nft.iifname("tunnel*"), nft.setSaddr(V6)]),
      nft.rule([
        nft.udpDport(5555),
        nft.setByMap("ip daddr", { field: "meta mark", map: "to4" }),
      ]),
      nft.rule([
        nft.udpDport(5555),
        nft.setByMap("ip6 daddr", { field: "meta mark", map: "to6" }),
        nft.accept(),
      ]),
      nft.rule([
        nft.udpDport(5555),
        nft.setByMap("meta mark", { field: "ip saddr", map: "from4" }),
        nft.accept(),
      ]),
      nft.rule([
        nft.udpDport(5555),
        nft.setByMap("meta mark", { field: "ip6 saddr", map: "from6" }),
        nft.accept(),
      ]),
      nft.rule([nft.l4proto("tcp"), nft.drop()]),
      nft.rule([nft.l4proto("icmp"), nft.drop()]),
      nft.rule([nft.l4proto("ipv6-icmp"), nft.drop()]),
      nft.rule([
        nft.ctUnconfirmed(),
        nft.inSet(["ip saddr"], "over4"),
        nft.drop(),
      ]),
      nft.rule([
        nft.ctUnconfirmed(),
        nft.random(0x12345678),
        nft.connectionsOver(1000, ["ip saddr"], "flows4"),
        nft.addToSet(["ip saddr"], "over4"),
        nft.counter("refused"),
        nft.drop(),
      ]),
      nft.rule([
        nft.tcpDport(8081),
        nft.ctState("new"),
        nft.rateOver({ perSecond: 20, burst: 40 }, ["ip saddr"], "over4"),
        nft.drop(),
      ]),
      nft.rule([
        nft.connectionsOver(1, ["ip6 saddr", "ip6 daddr"], "flows6"),
        nft.drop(),
      ]),
    ],
  },
  {
    name: "out",
    type: "route",
    hook: "output",
    priority: -150,
    policy: "accept",
    rules: [
      nft.rule([
        nft.ctState("new"),
        nft.tcpNotSyn(),
        nft.tcpSportBelow(32768),
        nft.setCtMark(7),
      ]),
      nft.rule([nft.ctMark(7), nft.restoreMark()]),
    ],
  },
  {
    name: "post",
    type: "nat",
    hook: "postrouting",
    priority: 100,
    policy: "accept",
    rules: [
      nft.rule([
        nft.oifname("eth0"),
        nft.saddr(V4, { not: true }),
        nft.counter("masqueraded"),
        nft.masquerade(),
      ]),
    ],
  },
];

/** A table with every statement, every type of set and every type of chain. */
export const EXAMPLE_TABLE: NftTable = {
  family: "inet",
  name: "examples",
  counters: ["refused", "invalid", "masqueraded"],
  sets: [
    {
      name: "pairs4",
      key: ["ipv4_addr", "ipv4_addr"],
      elements: ["192.0.2.9", "192.0.2.10", "10.0.0.1"].map((text) => [
        Address.parse(text),
        V4,
      ]),
    },
    {
      name: "pairs6",
      key: ["ipv6_addr", "ipv6_addr"],
      elements: [[V6, V6], [V6, Address.parse("fd00::1")]],
    },
    {
      name: "addresses4",
      key: ["ipv4_addr"],
      elements: ["192.0.2.9", "192.0.2.10", "10.0.0.1"].map((text) => [
        Address.parse(text),
      ]),
    },
    {
      name: "addresses6",
      key: ["ipv6_addr"],
      elements: [[V6], [Address.parse("fd00::1")]],
    },
    {
      name: "links",
      key: ["ifname"],
      elements: [["eth0"], ["a23456789012345"], ["lo"]],
    },
    {
      name: "marks",
      key: ["mark"],
      elements: [5, 1, 0xffffffff, 3, 2, 4].map((mark) => [mark]),
    },
    {
      name: "triples",
      key: ["ipv4_addr", "ifname", "mark"],
      elements: [[V4, "eth0", 1], [V4, "lo", 1], [V4, "eth0", 256]],
    },
    { name: "nobody", key: ["ipv4_addr"], elements: [] },
    {
      name: "from4",
      key: ["ipv4_addr"],
      value: "mark",
      elements: ["192.0.2.9", "192.0.2.10", "10.0.0.1"].map((text, i) => [
        Address.parse(text),
        i,
      ]),
    },
    {
      name: "from6",
      key: ["ipv6_addr"],
      value: "mark",
      elements: [[V6, 5], [Address.parse("fd00::1"), 5]],
    },
    {
      name: "to4",
      key: ["mark"],
      value: "ipv4_addr",
      elements: [7, 1, 0xffffffff, 3, 2, 4].map((mark) => [mark, V4]),
    },
    {
      name: "to6",
      key: ["mark"],
      value: "ipv6_addr",
      elements: [[7, V6], [5, Address.parse("fd00::1")]],
    },
    {
      name: "flows4",
      key: ["ipv4_addr"],
      elements: [],
      dynamic: { size: 65535 },
    },
    {
      name: "flows6",
      key: ["ipv6_addr", "ipv6_addr"],
      elements: [],
      dynamic: { size: 100 },
    },
    {
      name: "over4",
      key: ["ipv4_addr"],
      elements: [],
      dynamic: { size: 65535, timeoutMs: 93_784_100 },
    },
  ],
  chains: EXAMPLES,
};

/** The bytes of the rules of a table: a heading for each rule, below it a line for each instruction. */
export function dumpRules(table: NftTable): string {
  const lines = table.chains.flatMap((chain) =>
    chain.rules.flatMap((rule) => [
      `${chain.name}: ${formatRule(rule)}`,
      ...dumpRule(rule),
    ])
  );
  return `${lines.join("\n")}\n`;
}

/** The bytes of a rule: a line for each instruction, its name and its attributes in hexadecimal. */
function dumpRule(rule: NftRule): string[] {
  return encodeRule(rule).map(({ name, data }) => {
    const writer = new MessageWriter();
    writeTree(writer, data ?? []);
    return dumpLine(name, writer.bytes());
  });
}

/** One line of such a dump. */
export function dumpLine(name: string, bytes: Uint8Array): string {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  return `  ${name.padEnd(10)}${hex.join(" ")}`.trimEnd();
}
