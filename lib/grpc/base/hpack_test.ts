import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeHeaders, type HeaderField, HpackDecoder } from "./hpack.ts";
import { HUFFMAN_COUNTS, HUFFMAN_SYMBOLS } from "./hpack_tables.ts";
import { decodeHuffman } from "./huffman.ts";

function hex(text: string): Uint8Array {
  return Uint8Array.fromHex(text.replaceAll(" ", ""));
}

const GET: HeaderField[] = [[":method", "GET"], [":scheme", "http"], [
  ":path",
  "/",
], [":authority", "www.example.com"]];
const CUSTOM: HeaderField[] = [
  [":method", "GET"],
  [":scheme", "https"],
  [
    ":path",
    "/index.html",
  ],
  [":authority", "www.example.com"],
  ["custom-key", "custom-value"],
];
const DATES = ["Mon, 21 Oct 2013 20:13:21 GMT", "Mon, 21 Oct 2013 20:13:22 GMT"]
  .map((date): HeaderField => ["date", date]);
const [DATE1 = ["", ""], DATE2 = ["", ""]] = DATES;
const PRIVATE: HeaderField = ["cache-control", "private"];
const LOCATION: HeaderField = ["location", "https://www.example.com"];
const COOKIE = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const RESPONSES: HeaderField[][] = [
  [[":status", "302"], PRIVATE, DATE1, LOCATION],
  [[":status", "307"], PRIVATE, DATE1, LOCATION],
  [[":status", "200"], PRIVATE, DATE2, LOCATION, ["content-encoding", "gzip"], [
    "set-cookie",
    COOKIE,
  ]],
];
const REQUESTS = [GET, [...GET, ["cache-control", "no-cache"]], CUSTOM];
/** The examples of C.5 and C.6 have a dynamic table of 256 octets. */
const TABLE_OF_256 = "3fe101";

/** RFC 7541, appendix C: blocks of one connection, and what they mean. */
const EXAMPLES: [string, string[], (readonly HeaderField[])[]][] = [
  ["C.2.1", ["400a637573746f6d2d6b65790d637573746f6d2d686561646572"], [[[
    "custom-key",
    "custom-header",
  ]]]],
  ["C.2.2", ["040c2f73616d706c652f70617468"], [[[":path", "/sample/path"]]]],
  ["C.2.3", ["100870617373776f726406736563726574"], [[[
    "password",
    "secret",
  ]]]],
  ["C.2.4", ["82"], [[[":method", "GET"]]]],
  ["C.3", [
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
  ], REQUESTS as HeaderField[][]],
  ["C.4", [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
  ], REQUESTS as HeaderField[][]],
  ["C.5", [
    TABLE_OF_256 +
    "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
    "4803333037c1c0bf",
    "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
  ], RESPONSES],
  ["C.6", [
    TABLE_OF_256 +
    "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
    "4883640effc1c0bf",
    "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
  ], RESPONSES],
];

for (const [name, blocks, expected] of EXAMPLES) {
  Deno.test(`HpackDecoder decodes RFC 7541 ${name}`, () => {
    const decoder = new HpackDecoder();
    assert.deepEqual(
      blocks.map((block) => decoder.decode(hex(block))),
      expected,
    );
  });
}

const REFUSED: [string, string][] = [
  ["index 0", "80"],
  ["an index beyond the tables", "be"],
  ["an integer without end", "ffffffffffffffff"],
  ["an integer cut short", "ff80"],
  ["a string cut short", "000561"],
  ["a string longer than the block", "00017f7fff7f"],
  ["a table larger than allowed", "3fe21f"],
  ["a table size after a field", "8220"],
  ["a literal without its value", "4001"],
];

for (const [what, block] of REFUSED) {
  Deno.test(`HpackDecoder refuses ${what}`, () => {
    assert.throws(() => new HpackDecoder().decode(hex(block)), SyntaxError);
  });
}

Deno.test("HpackDecoder refuses a block that grows out of all proportion", () => {
  const decoder = new HpackDecoder();
  // An entry of 4 kB, then 64 kB of references to it: 256 MB of fields.
  const [, , ...name] = encodeHeaders([["x", "v".repeat(3000)]]);
  decoder.decode(Uint8Array.from([0x40, 1, ...name]));
  const bomb = new Uint8Array(65536).fill(0xbe);
  assert.throws(() => decoder.decode(bomb), /too many fields/);
});

const field = fc.tuple(
  fc.stringMatching(/^[a-z-]{1,20}$/),
  fc.string({ maxLength: 300, unit: fc.constantFrom(..."azAZ09 /%=~") }),
);

Deno.test("HpackDecoder decodes what encodeHeaders() encodes", () => {
  fc.assert(fc.property(fc.array(field), (fields) => {
    assert.deepEqual(new HpackDecoder().decode(encodeHeaders(fields)), fields);
  }));
});

Deno.test("HpackDecoder throws SyntaxError or decodes, for any bytes", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (block) => {
    try {
      new HpackDecoder().decode(block);
    } catch (error) {
      assert.ok(error instanceof SyntaxError);
    }
  }));
});

/** The code of a symbol as a string of 0 and 1, by RFC 7541's definition. */
function codeOf(symbol: number): string {
  let [code, at] = [0n, 0];
  for (const [length, count] of HUFFMAN_COUNTS.entries()) {
    const index = HUFFMAN_SYMBOLS.slice(at, at + count).indexOf(symbol);
    if (index >= 0) {
      return (code + BigInt(index)).toString(2).padStart(length, "0");
    }
    code = (code + BigInt(count)) * 2n;
    at += count;
  }
  throw new RangeError(`no symbol ${symbol}`);
}

function encodeHuffman(bytes: Uint8Array): Uint8Array {
  const bits = [...bytes].map(codeOf).join("");
  const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
  return Uint8Array.from(
    padded.match(/.{8}/g) ?? [],
    (octet) => parseInt(octet, 2),
  );
}

Deno.test("the Huffman code is that of RFC 7541, appendix B", () => {
  assert.equal(HUFFMAN_SYMBOLS.length, 257);
  assert.deepEqual(["0", "a", "|", "\\"].map((c) => codeOf(c.charCodeAt(0))), [
    "00000",
    "00011",
    "11111111100",
    "1111111111111110000",
  ]);
  assert.equal(codeOf(249), "1111111111111111111111111110");
  assert.equal(codeOf(256), "1".repeat(30));
});

Deno.test("decodeHuffman() decodes every byte", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
    assert.deepEqual(decodeHuffman(encodeHuffman(bytes)), bytes);
  }));
});

for (
  const [what, bytes] of [
    ["EOS", "ffffffff"],
    ["padding of a whole byte", "1fff"],
    ["padding that is not ones", "18"],
  ] as const
) {
  Deno.test(`decodeHuffman() refuses ${what}`, () => {
    assert.throws(() => decodeHuffman(hex(bytes)), SyntaxError);
  });
}
