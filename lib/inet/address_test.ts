import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, type Family } from "./mod.ts";

const addresses = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((v) => Address.of("ipv4", v)),
  fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((v) =>
    Address.of("ipv6", v)
  ),
  // Long runs of zeros are what the text form is about, and random numbers hardly ever have them.
  fc.array(fc.constantFrom(0n, 0n, 0n, 1n, 0xffffn), {
    minLength: 8,
    maxLength: 8,
  })
    .map((words) =>
      Address.of("ipv6", words.reduce<bigint>((v, w) => (v << 16n) | w, 0n))
    ),
);

for (
  const text of [
    "",
    " ",
    "1..2.3",
    "0x10.1.1.1",
    "1e1.0.0.0",
    "1.2.3",
    "1.2.3.4.5",
    "01.2.3.4",
    "1.2.3.04",
    "256.1.1.1",
    " 1.2.3.4",
    "1.2.3.4 ",
    "1.2.3.4\n",
    "+1.2.3.4",
    "-1.2.3.4",
    "１.2.3.4",
    "1.2.3.4/32",
    "16909060",
    "fe80::1%eth0",
    "fe80::1%",
    "1::2::3",
    ":1::",
    ":::",
    ":",
    "12345::",
    "g::",
    "::1 ",
    " ::1",
    "1:2",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
    "::ffff:01.2.3.4",
    "::ffff:1.2.3",
    "1.2.3.4::",
    "::1.2.3.4:1",
    "[::1]",
    "::1/128",
  ]
) {
  Deno.test(`Address.parse() refuses ${JSON.stringify(text)}`, () => {
    assert.equal(Address.tryParse(text), undefined);
    assert.throws(() => Address.parse(text), SyntaxError);
  });
}

for (
  const [text, family, canonical] of [
    ["0.0.0.0", "ipv4", "0.0.0.0"],
    ["255.255.255.255", "ipv4", "255.255.255.255"],
    ["10.2.0.1", "ipv4", "10.2.0.1"],
    ["::", "ipv6", "::"],
    ["::1", "ipv6", "::1"],
    ["fd02::0200", "ipv6", "fd02::200"],
    ["FD02:0:0:0:0:0:0:A", "ipv6", "fd02::a"],
    ["2001:db8:0:0:1:0:0:1", "ipv6", "2001:db8::1:0:0:1"],
    ["2001:0:0:1:0:0:0:1", "ipv6", "2001:0:0:1::1"],
    ["2001:db8:0:1:1:1:1:1", "ipv6", "2001:db8:0:1:1:1:1:1"],
    ["1:2:3:4:5:6:7::", "ipv6", "1:2:3:4:5:6:7:0"],
    ["::ffff:1.2.3.4", "ipv6", "::ffff:1.2.3.4"],
    ["::ffff:102:304", "ipv6", "::ffff:1.2.3.4"],
    ["64:ff9b::10.0.0.1", "ipv6", "64:ff9b::a00:1"],
  ] as const satisfies readonly (readonly [string, Family, string])[]
) {
  Deno.test(`Address.parse() reads "${text}" and prints "${canonical}"`, () => {
    const address = Address.parse(text);
    assert.equal(address.family, family);
    assert.equal(address.toString(), canonical);
    assert.equal(JSON.stringify({ address }), `{"address":"${canonical}"}`);
  });
}

Deno.test("Address text and bytes round trip, and the text is what WHATWG URL prints", () => {
  fc.assert(fc.property(addresses, (address) => {
    assert.ok(Address.parse(address.toString()).equals(address));
    assert.ok(Address.fromBytes(address.toBytes()).equals(address));
    if (address.family === "ipv6" && address.value >> 32n !== 0xffffn) {
      // An independent implementation of RFC 5952.
      assert.equal(new URL(`http://[${address}]/`).hostname, `[${address}]`);
    }
  }));
});

Deno.test("Address.fromBytes() refuses other lengths", () => {
  assert.throws(() => Address.fromBytes(new Uint8Array(5)), RangeError);
});

Deno.test("Address.offset() stays within the family", () => {
  assert.equal(Address.parse("10.0.0.255").offset(1n).toString(), "10.0.1.0");
  assert.equal(Address.parse("::1").offset(-1n).toString(), "::");
  assert.throws(() => Address.parse("255.255.255.255").offset(1n), RangeError);
  assert.throws(() => Address.parse("::").offset(-1n), RangeError);
});

Deno.test("Address.compare() orders IPv4 first, then by number", () => {
  const sorted = ["::", "10.0.0.2", "::1", "9.0.0.0"].map(Address.parse)
    .sort((a, b) => a.compare(b)).map(String);
  assert.deepEqual(sorted, ["9.0.0.0", "10.0.0.2", "::", "::1"]);
  assert.equal(Address.parse("::1").compare(Address.parse("::1")), 0);
});

Deno.test("Address.equals() tells families apart", () => {
  assert.ok(!Address.of("ipv4", 1n).equals(Address.of("ipv6", 1n)));
});

Deno.test("Address.isLinkLocal knows both families", () => {
  for (const text of ["169.254.1.1", "fe80::1", "febf::1"]) {
    assert.ok(Address.parse(text).isLinkLocal, text);
  }
  for (const text of ["169.255.0.0", "10.0.0.1", "fec0::1", "fd02::1"]) {
    assert.ok(!Address.parse(text).isLinkLocal, text);
  }
});
