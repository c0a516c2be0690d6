import assert from "node:assert/strict";
import { Address } from "../../../inet/mod.ts";
import type { NftStatement } from "../model/model.ts";
import { encodeRule } from "./rule_encoder.ts";
import * as nft from "../model/statements.ts";
import { dumpRules, EXAMPLE_TABLE } from "../testing.ts";

const V4 = Address.parse("192.0.2.1");
const V6 = Address.parse("2001:db8::1");

Deno.test("encodeRule() writes the bytes that nft was recorded to send", async () => {
  const golden = new URL(
    "../../../../tests/golden/netfilter/examples_rules.txt",
    import.meta.url,
  );
  assert.equal(dumpRules(EXAMPLE_TABLE), await Deno.readTextFile(golden));
});

Deno.test("encodeRule() puts a test of family or protocol in once", () => {
  const names = (...statements: NftStatement[]) =>
    encodeRule(nft.rule(statements)).map(({ name }) => name).join(" ");
  const saddr = "meta cmp payload cmp";
  assert.equal(names(nft.saddr(V4)), saddr);
  assert.equal(names(nft.nfproto("ipv4"), nft.saddr(V4)), saddr);
  assert.equal(names(nft.saddr(V4), nft.daddr(V4)), `${saddr} payload cmp`);
  assert.equal(names(nft.l4proto("udp"), nft.udpDport(1)), saddr);
});

Deno.test("encodeRule() refuses rules that no packet agrees with, and values out of range", () => {
  const cases: [NftStatement[], RegExp][] = [
    [
      [nft.saddr(V4), nft.daddr(V6)],
      /^TypeError: Cannot test for ipv6: the rule is about ipv4$/,
    ],
    [
      [nft.udpDport(1), nft.clampMss()],
      /^TypeError: Cannot test for tcp: the rule is about udp$/,
    ],
    [
      [nft.inSet(["inner ip saddr"], "s")],
      /^TypeError: Cannot look into a datagram: the rule does not test for UDP/,
    ],
    [
      [{ kind: "address", field: "ip saddr", address: V6, not: false }],
      /^TypeError: Cannot compare "ip saddr" with "2001:db8::1"$/,
    ],
    [[nft.udpDport(65536)], /^RangeError: Cannot use UDP port 65536/],
    [[nft.udpDport(1.5)], /^RangeError: Cannot use UDP port 1.5/],
    [[nft.tcpDport(65536)], /^RangeError: Cannot use TCP port 65536/],
    [[nft.tcpSportBelow(-1)], /^RangeError: Cannot use TCP port -1/],
    [[nft.setCtMark(2 ** 32)], /^RangeError: Cannot use mark 4294967296/],
    [[nft.ctMark(-1)], /^RangeError: Cannot use mark -1/],
    [[nft.ctState()], /^TypeError: Cannot test for a connection state/],
    [[nft.iifname("*")], /^SyntaxError: Cannot use interface name ""/],
    [[nft.oifname("a234567890123456")], /^SyntaxError: Cannot use interface/],
  ];
  for (const [statements, message] of cases) {
    assert.throws(() => encodeRule(nft.rule(statements)), message);
  }
});
