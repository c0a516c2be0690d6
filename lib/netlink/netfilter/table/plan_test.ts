import assert from "node:assert/strict";
import { Address } from "../../../inet/mod.ts";
import { MessageWriter } from "../../message/message_writer.ts";
import type { Request } from "../../message/request.ts";
import type { NftChain, NftTable } from "../model/model.ts";
import { elementsAdd } from "../wire/requests.ts";
import * as nft from "../model/statements.ts";
import { planTable, tableRequests } from "./plan.ts";

const V4 = Address.parse("192.0.2.1");

const CHAIN: NftChain = {
  name: "incoming",
  type: "filter",
  hook: "input",
  priority: -150,
  policy: "drop",
  rules: [
    nft.rule([nft.inSet(["ip saddr"], "friends"), nft.accept()]),
    nft.rule([nft.counter("seen")], { comment: "others" }),
  ],
};

const TABLE: NftTable = {
  family: "inet",
  name: "small",
  counters: ["seen"],
  sets: [{ name: "friends", key: ["ipv4_addr"], elements: [[V4]] }],
  chains: [CHAIN],
};

function bytesOf(request: Request): string {
  const writer = new MessageWriter();
  request.write(writer);
  const hex = (byte: number) => byte.toString(16).padStart(2, "0");
  return Array.from(writer.bytes(), hex).join(" ");
}

Deno.test("tableRequests() makes things before what names them", () => {
  const requests = tableRequests(planTable(TABLE));
  assert.deepEqual(requests.map((request) => request.describe()), [
    'add table "inet small"',
    'add counter "seen" to table "inet small"',
    'add set "friends" to table "inet small"',
    'add 1 elements to set "friends" of table "inet small"',
    'add chain "incoming" to table "inet small"',
    'add rule "ip saddr @friends accept" to chain "incoming" of table "inet small"',
    'add rule "counter name "seen" comment "others"" to chain "incoming" of table "inet small"',
  ]);
});

Deno.test("tableRequests() writes the messages that the kernel documents and nft sends", () => {
  const counters = new Map([["seen", { packets: 1n, bytes: 2n }]]);
  const [, counter, set, elements, chain, , rule] = tableRequests(
    planTable(TABLE),
    { counters },
  );
  const table = "0a 00 01 00 73 6d 61 6c 6c 00 00 00";
  const expected: [Request | undefined, string[]][] = [
    [counter, [
      "01 00 00 00",
      table,
      "09 00 02 00 73 65 65 6e 00 00 00 00",
      "08 00 03 00 00 00 00 01",
      "1c 00 04 80",
      "0c 00 01 00 00 00 00 00 00 00 00 02",
      "0c 00 02 00 00 00 00 00 00 00 00 01",
    ]],
    [set, [
      "01 00 00 00",
      table,
      "0c 00 02 00 66 72 69 65 6e 64 73 00",
      "08 00 04 00 00 00 00 07",
      "08 00 05 00 00 00 00 04",
      "08 00 03 00 00 00 00 00",
      "08 00 0a 00 00 00 00 01",
      "0a 00 0d 00 00 04 02 00 00 00 00 00",
    ]],
    [elements, [
      "01 00 00 00",
      table,
      "0c 00 02 00 66 72 69 65 6e 64 73 00",
      "14 00 03 80 10 00 01 80 0c 00 01 80 08 00 01 00 c0 00 02 01",
    ]],
    [chain, [
      "01 00 00 00",
      table,
      "0d 00 03 00 69 6e 63 6f 6d 69 6e 67 00 00 00 00",
      "0b 00 07 00 66 69 6c 74 65 72 00 00",
      "08 00 05 00 00 00 00 00",
      "14 00 04 80 08 00 01 00 00 00 00 01 08 00 02 00 ff ff ff 6a",
    ]],
    [rule, [
      "01 00 00 00",
      table,
      "0d 00 02 00 69 6e 63 6f 6d 69 6e 67 00 00 00 00",
      "2c 00 04 80 28 00 01 80 0b 00 01 00 6f 62 6a 72 65 66 00 00",
      "18 00 02 80 08 00 01 00 00 00 00 01 09 00 02 00 73 65 65 6e 00 00 00 00",
      "0d 00 07 00 00 07 6f 74 68 65 72 73 00 00 00 00",
    ]],
  ];
  for (const [request, bytes] of expected) {
    assert.equal(request && bytesOf(request), bytes.join(" "));
  }
});

Deno.test("tableRequests() writes a map with its values as nft sends it", () => {
  const table: NftTable = {
    ...TABLE,
    sets: [{
      name: "friends",
      key: ["ipv4_addr"],
      value: "mark",
      elements: [[V4, 7]],
    }],
    chains: [],
  };
  const [, , set, elements] = tableRequests(planTable(table));
  const target = "0a 00 01 00 73 6d 61 6c 6c 00 00 00";
  assert.ok(set && elements);
  assert.equal(
    bytesOf(set),
    [
      "01 00 00 00",
      target,
      "0c 00 02 00 66 72 69 65 6e 64 73 00",
      "08 00 04 00 00 00 00 07",
      "08 00 05 00 00 00 00 04",
      "08 00 03 00 00 00 00 08",
      "08 00 06 00 00 00 00 13",
      "08 00 07 00 00 00 00 04",
      "08 00 0a 00 00 00 00 01",
      "10 00 0d 00 00 04 02 00 00 00 01 04 01 00 00 00",
    ].join(" "),
  );
  assert.equal(
    bytesOf(elements),
    [
      "01 00 00 00",
      target,
      "0c 00 02 00 66 72 69 65 6e 64 73 00",
      "20 00 03 80 1c 00 01 80",
      "0c 00 01 80 08 00 01 00 c0 00 02 01",
      "0c 00 02 80 08 00 01 00 07 00 00 00",
    ].join(" "),
  );
});

Deno.test("elementsAdd() leaves room for the values of a map", () => {
  const elements = Array.from({ length: 10_000 }, () => new Uint8Array(8));
  const target = { table: "small", set: "friends", keyBytes: 4 };
  for (const request of elementsAdd(elements, target)) {
    const writer = new MessageWriter();
    request.write(writer);
    assert.ok(writer.bytes().byteLength < 2 ** 16);
  }
});

Deno.test("elementsAdd() splits lists that do not fit into one attribute", () => {
  const elements = Array.from({ length: 10_000 }, () => new Uint8Array(32));
  const requests = elementsAdd(elements, { table: "small", set: "friends" });
  const counts = requests.map((request) =>
    Number(/add (\d+) elements/.exec(request.describe())?.[1])
  );
  assert(requests.length > 1);
  assert.equal(counts.reduce((sum, count) => sum + count), 10_000);
  for (const request of requests) {
    const writer = new MessageWriter();
    request.write(writer);
    assert(writer.length < 0x10000);
  }
  assert.deepEqual(elementsAdd([], { table: "small", set: "friends" }), []);
});

Deno.test("planTable() refuses what the kernel would not explain", () => {
  const [set] = TABLE.sets;
  assert(set);
  const cases: [Partial<NftTable>, RegExp][] = [
    [{ name: "a b" }, /^TypeError: Cannot name a table "a b": nft takes/],
    [{ name: "" }, /^TypeError: Cannot name a table ""/],
    [{ name: "a\\b" }, /^TypeError: Cannot name a table "a\\\\b": nft takes/],
    [
      { sets: [] },
      /^TypeError: Cannot use set "friends" in chain "incoming": the table has no such$/,
    ],
    [
      { counters: [] },
      /^TypeError: Cannot use counter "seen" in chain "incoming"/,
    ],
    [
      { sets: [set, set] },
      /^TypeError: Cannot have two sets "friends" in one table$/,
    ],
    [
      { chains: [CHAIN, { ...CHAIN, name: "more" }] },
      /^TypeError: Cannot have chains "incoming" and "more" both in input with priority -150$/,
    ],
    [
      { chains: [{ ...CHAIN, rules: [nft.rule([], { comment: 'a"b' })] }] },
      /^TypeError: Cannot comment a rule with "a\\"b": nft takes up to 127 bytes/,
    ],
    [
      {
        chains: [{
          ...CHAIN,
          rules: [nft.rule([], { comment: "é".repeat(64) })],
        }],
      },
      /^TypeError: Cannot comment a rule/,
    ],
    [
      { sets: [{ ...set, value: "mark", elements: [[V4, 1]] }] },
      /^TypeError: Cannot use set "friends" in chain "incoming": the table has no such$/,
    ],
    [
      { sets: [set, { ...set, name: "m", value: "mark" }] },
      /^TypeError: Cannot use element "192.0.2.1" in a set of ipv4_addr \. mark$/,
    ],
    [
      {
        sets: [set, {
          ...set,
          name: "m",
          value: "mark",
          elements: [[V4, 1], [V4, 2]],
        }],
      },
      /^TypeError: Cannot give "192.0.2.1" two values in map "m"$/,
    ],
    [
      {
        chains: [{
          ...CHAIN,
          rules: [
            nft.rule([
              nft.setByMap("meta mark", { field: "ip saddr", map: "friends" }),
            ]),
          ],
        }],
      },
      /^TypeError: Cannot use map "friends" in chain "incoming": the table has no such$/,
    ],
    [
      { sets: [{ ...set, key: [] }] },
      /^TypeError: Cannot use element|^TypeError: Cannot make a set/,
    ],
    [
      { sets: [{ ...set, key: Array(5).fill("ipv6_addr"), elements: [] }] },
      /^TypeError: Cannot make a set with a key of 80 bytes: at most 64$/,
    ],
  ];
  for (const [change, message] of cases) {
    assert.throws(() => planTable({ ...TABLE, ...change }), message);
  }
});
