import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  addressAdd,
  addressDelete,
  checkInterfaceName,
  formatMac,
  linkAddVeth,
  linkDelete,
  linkSet,
  neighbourDelete,
  neighbourGet,
  parseMac,
  type Request,
  routeAdd,
  routeDelete,
  routeReplace,
  type Rule,
  ruleAdd,
  ruleDelete,
  ruleText,
} from "../mod.ts";
import {
  linkAddBridge,
  linkAddDummy,
  linkGetCounters,
  neighbourAdd,
} from "../../../tests/lab/netlink_requests.ts";
import { bytesOf } from "../testing.ts";

const ADDRESS = Address.parse("10.1.2.3");
const PREFIX = Prefix.host(ADDRESS);
const MAC = "02:00:0a:01:02:03";

Deno.test("requests say what they ask for", () => {
  const target = { index: 5, prefix: { address: ADDRESS, length: 24 } };
  const route = { family: "ipv4", destination: PREFIX, table: 116 } as const;
  const rule = { family: "ipv6", priority: 2000, table: 116 } as const;
  const neighbour = { index: 5, address: ADDRESS, mac: MAC };
  const cases: [Request, string][] = [
    [
      linkAddVeth({ name: "a", peer: { name: "b" } }),
      'create veth "a" with peer "b"',
    ],
    [linkAddBridge({ name: "br0" }), 'create bridge "br0"'],
    [linkAddDummy({ name: "d0" }), 'create dummy "d0"'],
    [linkGetCounters({ name: "a" }, () => {}), 'get counters of link "a"'],
    [linkSet({ name: "a" }, { up: true }), 'set link "a"'],
    [linkSet({ index: 5 }, { up: false }), "set link 5"],
    [linkDelete({ name: "a" }), 'delete link "a"'],
    [linkDelete({ group: 7 }), "delete link group 7"],
    [addressAdd(target), 'add address "10.1.2.3/24" to link 5'],
    [addressDelete(target), 'delete address "10.1.2.3/24" from link 5'],
    [routeAdd(route), 'add route "10.1.2.3/32" to table 116'],
    [routeReplace(route), 'replace route "10.1.2.3/32" to table 116'],
    [routeDelete(route), 'delete route "10.1.2.3/32" from table 116'],
    [routeAdd({ family: "ipv6" }), 'add route "default" to table 254'],
    [ruleAdd(rule), 'add ipv6 rule "2000: from all lookup 116"'],
    [ruleDelete(rule), 'delete ipv6 rule "2000: from all lookup 116"'],
    [neighbourAdd(neighbour), 'add neighbour "10.1.2.3" of link 5'],
    [neighbourDelete(neighbour), 'delete neighbour "10.1.2.3" of link 5'],
    [neighbourGet(neighbour, () => {}), 'get neighbour "10.1.2.3" of link 5'],
  ];
  for (const [request, text] of cases) assert.equal(request.describe(), text);
});

Deno.test("ruleText() has all that a rule asks for, as ip rule show writes it", () => {
  const rule = { family: "ipv4", priority: 9, table: 7 } as const;
  const cases: [Partial<Rule>, string][] = [
    [{}, "9: from all lookup 7"],
    [{ table: 253 }, "9: from all lookup default"],
    [{ table: 254, protocol: 0 }, "9: from all lookup main"],
    [{ table: 255, protocol: 2 }, "9: from all lookup local"],
    [{ source: PREFIX, protocol: 3 }, `9: from ${PREFIX} lookup 7 proto 3`],
    [
      { destination: PREFIX, fwmark: 0, fwmask: 0x80 },
      `9: from all to ${PREFIX} fwmark 0x0/0x80 lookup 7`,
    ],
    [{ fwmark: 0x1f, iif: "lo" }, "9: from all fwmark 0x1f iif lo lookup 7"],
    [{ table: 0, goto: 12, protocol: 3 }, "9: from all goto 12 proto 3"],
    [{ table: 0, isNop: true }, "9: from all nop"],
    [{ table: 0, hasMore: true }, "9: from all and more"],
  ];
  for (const [fields, text] of cases) {
    assert.equal(ruleText({ ...rule, ...fields }), text);
  }
});

Deno.test("routeAdd() writes a struct rtmsg with the table as an attribute", () => {
  const request = routeAdd({
    family: "ipv4",
    destination: PREFIX,
    index: 7,
    table: 70000,
    protocol: 30,
    source: Address.parse("192.0.2.1"),
  });
  assert.equal(
    bytesOf(request),
    [
      "02 20 00 00 00 1e fd 01 00 00 00 00", // proto 30, scope link, unicast
      "08 00 01 00 0a 01 02 03",
      "08 00 04 00 07 00 00 00",
      "08 00 07 00 c0 00 02 01",
      "08 00 0f 00 70 11 01 00",
    ].join(" "),
  );
});

Deno.test("routeAdd() takes the scope that ip would take", () => {
  const scope = (request: Request) => bytesOf(request).split(" ")[6];
  const gateway = Address.parse("10.0.0.1");
  assert.equal(scope(routeAdd({ family: "ipv4", index: 1 })), "fd");
  assert.equal(scope(routeAdd({ family: "ipv4", gateway })), "00");
  assert.equal(scope(routeAdd({ family: "ipv6", index: 1 })), "00");
  assert.equal(scope(routeAdd({ family: "ipv4", scope: "host" })), "fe");
  assert.equal(scope(routeDelete({ family: "ipv4" })), "ff");
});

Deno.test("route and rule requests refuse to mix families", () => {
  const source = Address.parse("fd00::1");
  const mixed = { family: "ipv4", destination: PREFIX, source } as const;
  for (const build of [routeAdd, routeReplace, routeDelete]) {
    assert.throws(
      () => build(mixed),
      /^TypeError: Cannot use "fd00::1" in an ipv4 route: it is ipv6$/,
    );
  }
  assert.throws(
    () => ruleAdd({ family: "ipv6", priority: 1, table: 1, source: PREFIX }),
    TypeError,
  );
});

Deno.test("linkDelete() refuses group 0, which would delete every link", () => {
  for (const group of [0, -1, 1.5, NaN, 2 ** 32]) {
    assert.throws(() => linkDelete({ group }), RangeError, String(group));
  }
});

Deno.test("linkSet() renames by index only", () => {
  assert.throws(() => linkSet({ name: "a" }, { rename: "b" }), TypeError);
  assert.throws(() => linkSet({ index: 1 }, { rename: "a/b" }), SyntaxError);
});

Deno.test("linkSet() refuses to set a link up before its addresses are governed", () => {
  const ipv6AddrGenMode = "none";
  assert.throws(
    () => linkSet({ name: "a" }, { up: true, ipv6AddrGenMode }),
    TypeError,
  );
  linkSet({ name: "a" }, { up: false, ipv6AddrGenMode });
});

Deno.test("checkInterfaceName() takes and refuses what the kernel does", () => {
  for (
    const name of ["a", "eth0", "veth0123abcd", "a.b-c_d@", "123456789012345"]
  ) {
    assert.equal(checkInterfaceName(name), name);
  }
  const refused = [
    "",
    ".",
    "..",
    "a/b",
    "a b",
    "a\tb",
    "a:1",
    "a\0b",
    "eth%d",
    "a\n",
    "1234567890123456",
    "\u00e9".repeat(8), // 8 characters, 16 bytes
  ];
  for (const name of refused) {
    assert.throws(
      () => checkInterfaceName(name),
      SyntaxError,
      JSON.stringify(name),
    );
    const builders = [
      () => linkAddBridge({ name }),
      () => linkAddVeth({ name, peer: { name: "ok" } }),
      () => linkAddVeth({ name: "ok", peer: { name } }),
      () => linkSet({ name }, {}),
      () => linkDelete({ name }),
      () => ruleAdd({ family: "ipv4", priority: 1, table: 1, iif: name }),
    ];
    for (const build of builders) assert.throws(build, SyntaxError);
  }
});

Deno.test("parseMac() and formatMac() are each other's inverse, and strict", () => {
  assert.equal(formatMac(parseMac(MAC)), MAC);
  assert.equal(formatMac(parseMac("AA:bb:CC:dd:EE:ff")), "aa:bb:cc:dd:ee:ff");
  for (
    const text of [
      "",
      "02:00:0a:01:02",
      `${MAC}:00`,
      "2:0:a:1:2:3",
      "02-00-0a-01-02-03",
      ` ${MAC}`,
      "0x:00:0a:01:02:03",
    ]
  ) {
    assert.throws(() => parseMac(text), SyntaxError, text);
  }
});
