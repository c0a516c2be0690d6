import fc from "fast-check";
import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  nft,
  type NftRule,
  type NftSet,
  type NftStatement,
  type NftTable,
} from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import {
  dumpRules,
  EXAMPLE_TABLE,
  saddrIn,
} from "../../lib/netlink/netfilter/testing.ts";
import { listTable, recordRules } from "./netfilter_testing.ts";
import { netnsTest, tempNetns } from "./testing.ts";

netnsTest(
  "nft lists a table with every statement as it was planned",
  async () => {
    await using temp = await tempNetns("nft");
    using netns = Netns.open(temp.path);
    await using socket = NetfilterSocket.open({ netns });
    assert.equal(await socket.replaceTable(EXAMPLE_TABLE), true);
    assert.equal(
      await listTable(temp, EXAMPLE_TABLE.name),
      formatTable(EXAMPLE_TABLE),
    );
    assert.equal(await socket.replaceTable(EXAMPLE_TABLE), false);
  },
);

netnsTest("nft sends the same bytes for the same rules", async () => {
  await using temp = await tempNetns("nft");
  assert.equal(
    await recordRules(temp, EXAMPLE_TABLE),
    dumpRules(EXAMPLE_TABLE),
  );
});

netnsTest("nft reads back every name that a table can have", async () => {
  await using temp = await tempNetns("nft");
  using netns = Netns.open(temp.path);
  await using socket = NetfilterSocket.open({ netns });
  const name = "A-name_of.all/kinds9";
  const table: NftTable = {
    family: "inet",
    name,
    counters: [name],
    sets: [{ name, key: ["ipv4_addr"], elements: [] }],
    chains: [{
      name,
      type: "filter",
      hook: "input",
      priority: 0,
      policy: "drop",
      rules: [nft.rule([nft.inSet(["ip saddr"], name), nft.counter(name)])],
    }],
  };
  await socket.replaceTable(table);
  const listed = await listTable(temp, name);
  assert.equal(listed, formatTable(table));
  await socket.deleteTable(name);
  await temp.exec("nft", listed);
  assert.equal(await socket.replaceTable(table), false);
});

const V4 = fc.bigInt(0n, 2n ** 32n - 1n).map((n) => Address.of("ipv4", n));
// Not ::a.b.c.d, which nft shows with dots and RFC 5952 does not.
const V6 = fc.bigInt(2n ** 48n, 2n ** 128n - 1n).map((n) =>
  Address.of("ipv6", n)
);
function prefixes(addresses: fc.Arbitrary<Address>): fc.Arbitrary<Prefix> {
  return addresses.chain((address) =>
    fc.integer({ min: 1, max: address.bits }).map((length) =>
      Prefix.of(address, length)
    )
  );
}
// nft shows a match of the highest bit as a prefix.
const BITS = fc.nat(31).map((bit) => 2 ** bit);
const NOT = fc.record({ not: fc.boolean() });
const NAME = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}\*?$/);

/** Statements that agree with any packet of the family and protocol; the chain is one in forward. */
function statements(
  family: "ipv4" | "ipv6",
  protocol: "tcp" | "udp" | "icmp" | "ipencap",
): fc.Arbitrary<NftStatement> {
  const address = family === "ipv4" ? V4 : V6;
  const ip = family === "ipv4" ? "ip" : "ip6";
  const digit = family === "ipv4" ? "4" : "6";
  return fc.oneof(
    fc.tuple(NAME, NOT).map(([name, not]) => nft.iifname(name, not)),
    fc.tuple(NAME, NOT).map(([name, not]) => nft.oifname(name, not)),
    // No link has these, so nft has no name to show.
    fc.integer({ min: 2 ** 30, max: 2 ** 31 - 1 }).map(nft.iif),
    fc.integer({ min: 2 ** 30, max: 2 ** 31 - 1 }).map(nft.oif),
    // Group 0 has a name.
    fc.tuple(fc.integer({ min: 1, max: 0xffffffff }), NOT)
      .map(([group, not]) => nft.iifgroup(group, not)),
    fc.tuple(fc.integer({ min: 1, max: 0xffff }), NOT)
      .map(([group, not]) => nft.iifgroup(group, { ...not, mask: 0xffff })),
    fc.tuple(address, NOT).map(([value, not]) => nft.saddr(value, not)),
    fc.tuple(address, NOT).map(([value, not]) => nft.daddr(value, not)),
    fc.tuple(prefixes(address), NOT)
      .map(([value, not]) => saddrIn(value, not)),
    fc.tuple(prefixes(address), NOT)
      .map(([value, not]) => nft.daddrIn(value, not)),
    NOT.map((not) => nft.inSet([`${ip} saddr`], `one${digit}`, not)),
    NOT.map((not) =>
      nft.inSet([`${ip} daddr`, `${ip} daddr`], `two${digit}`, not)
    ),
    address.map(nft.setSaddr),
    fc.constantFrom(
      nft.setByMap("meta mark", { field: `${ip} saddr`, map: `marks${digit}` }),
      nft.setByMap(`${ip} daddr`, {
        field: "meta mark",
        map: `addresses${digit}`,
      }),
      nft.setByMap("meta mark", { field: "ct mark", map: "marks" }),
    ),
    fc.constant(nft.nfproto(family)),
    fc.constant(nft.l4proto(protocol)),
    fc.nat(0xffffffff).map(nft.ctMark),
    fc.nat(0xffffffff).map(nft.metaMark),
    fc.nat(0xffffffff).map(nft.setCtMark),
    fc.nat(0xffffffff).map(nft.setMetaMark),
    BITS.map(nft.ctMarkBits),
    BITS.map(nft.ctMarkLacks),
    BITS.map(nft.setCtMarkBits),
    BITS.map(nft.setMetaMarkBits),
    fc.constant(nft.restoreMark()),
    fc.constant(nft.saveMark()),
    fc.constantFrom("original", "reply").map(nft.ctDirection),
    fc.subarray(
      ["new", "established", "related", "invalid", "untracked"] as const,
      {
        minLength: 1,
      },
    ).map((states) => nft.ctState(...states)),
    fc.constant(nft.counter("packets")),
    fc.constant(nft.ctUnconfirmed()),
    fc.integer({ min: 1, max: 0xffffffff }).map(nft.random),
    ...protocol === "tcp"
      ? [
        fc.constantFrom(nft.clampMss(), nft.tcpNotSyn()),
        // Nothing is below 0, which nft refuses.
        fc.integer({ min: 1, max: 65535 }).map(nft.tcpSportBelow),
        fc.nat(65535).map(nft.tcpDport),
      ]
      : [],
    ...protocol === "udp"
      ? [fc.nat(65535).map(nft.udpDport), fc.nat(65535).map(nft.udpSport)]
      : [],
  );
}

const VERDICT = fc.constantFrom(
  nft.accept(),
  nft.drop(),
  nft.reject("admin-prohibited"),
  nft.reject("host-unreachable"),
);

const RULE: fc.Arbitrary<NftRule> = fc.tuple(
  fc.constantFrom("ipv4", "ipv6"),
  fc.constantFrom("tcp", "udp", "icmp", "ipencap"),
).chain(([family, protocol]) =>
  fc.tuple(
    fc.array(statements(family, protocol), { maxLength: 6 }),
    VERDICT,
    fc.option(fc.stringMatching(/^[ -!#-~]{1,40}$/), { nil: undefined }),
  )
).map(([some, verdict, comment]) =>
  nft.rule(
    [...some, verdict],
    comment === undefined ? {} : { comment },
  )
);

function mapsOf(digit: "4" | "6", addresses: readonly Address[]): NftSet[] {
  const type = `ipv${digit}_addr` as const;
  return [
    {
      name: `marks${digit}`,
      key: [type],
      value: "mark",
      elements: addresses.map((a) => [a, Number(a.value & 0xffn)]),
    },
    {
      name: `addresses${digit}`,
      key: ["mark"],
      value: type,
      elements: addresses.map((a, i) => [i, a]),
    },
  ];
}

const TABLE: fc.Arbitrary<NftTable> = fc.tuple(
  fc.array(V4, { maxLength: 12 }),
  fc.array(V6, { maxLength: 12 }),
  fc.array(RULE, { minLength: 1, maxLength: 25 }),
  fc.integer({ min: -400, max: 400 }),
).map(([v4, v6, rules, priority]) => ({
  family: "inet",
  name: "generated",
  counters: ["packets"],
  sets: [
    { name: "one4", key: ["ipv4_addr"], elements: v4.map((a) => [a]) },
    { name: "one6", key: ["ipv6_addr"], elements: v6.map((a) => [a]) },
    {
      name: "two4",
      key: ["ipv4_addr", "ipv4_addr"],
      elements: v4.map((a) => [a, a]),
    },
    {
      name: "two6",
      key: ["ipv6_addr", "ipv6_addr"],
      elements: v6.map((a) => [a, a]),
    },
    ...mapsOf("4", v4),
    ...mapsOf("6", v6),
    { name: "marks", key: ["mark"], value: "mark", elements: [[1, 2]] },
  ],
  chains: [{
    name: "all",
    type: "filter",
    hook: "forward",
    priority,
    policy: "accept",
    rules,
  }],
}));

netnsTest(
  "nft lists any table as planned and a second time changes nothing",
  async () => {
    await using temp = await tempNetns("nft");
    using netns = Netns.open(temp.path);
    await using socket = NetfilterSocket.open({ netns });
    await fc.assert(
      fc.asyncProperty(TABLE, async (table) => {
        await socket.replaceTable(table);
        assert.equal(await listTable(temp, table.name), formatTable(table));
        assert.equal(await socket.replaceTable(table), false);
      }),
      { numRuns: 40 },
    );
  },
);
