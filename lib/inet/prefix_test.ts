import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "./mod.ts";

const prefixes = fc.oneof(
  fc.tuple(
    fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }),
    fc.integer({ min: 0, max: 32 }),
  )
    .map(([value, length]) => Prefix.of(Address.of("ipv4", value), length)),
  fc.tuple(
    fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }),
    fc.integer({ min: 0, max: 128 }),
  )
    .map(([value, length]) => Prefix.of(Address.of("ipv6", value), length)),
);

for (
  const text of [
    "",
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/08",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/+8",
    "10.0.0.0/8 ",
    "10.0.0.0/ 8",
    "10.0.0.0/1e1",
    "10.0.0.0/0x8",
    "10.0.0.0/8/8",
    "/8",
    "a.b.c.d/16",
    "fd02::/129",
    "fd02::/",
    "fd02::%eth0/64",
    "10.0.0.0/255.0.0.0",
  ]
) {
  Deno.test(`Prefix.parse() refuses ${JSON.stringify(text)}`, () => {
    assert.equal(Prefix.tryParse(text), undefined);
    assert.throws(() => Prefix.parse(text), SyntaxError);
  });
}

for (
  const [text, canonical] of [
    ["10.1.2.3/24", "10.1.2.0/24"],
    ["10.0.0.1/32", "10.0.0.1/32"],
    ["1.2.3.4/0", "0.0.0.0/0"],
    ["fd02::0200/127", "fd02::200/127"],
    ["fd02:1::1/16", "fd02::/16"],
    ["::1/0", "::/0"],
  ] as const
) {
  Deno.test(`Prefix.parse() reads "${text}" as ${canonical}`, () => {
    assert.equal(Prefix.parse(text).toString(), canonical);
  });
}

Deno.test("Prefix text round trips", () => {
  fc.assert(fc.property(prefixes, (prefix) => {
    assert.ok(Prefix.parse(prefix.toString()).equals(prefix));
    assert.equal(prefix.size, 2n ** BigInt(prefix.hostBits));
  }));
});

Deno.test("Prefix.nth() and indexOf() undo each other", () => {
  fc.assert(
    fc.property(
      prefixes,
      fc.bigInt({ min: 0n, max: 2n ** 128n }),
      (prefix, any) => {
        const position = any % prefix.size;
        const address = prefix.nth(position);
        assert.ok(prefix.contains(address));
        assert.equal(prefix.indexOf(address), position);
      },
    ),
  );
});

Deno.test("Prefix.nth() and indexOf() refuse what is outside", () => {
  const prefix = Prefix.parse("10.0.0.0/30");
  assert.throws(() => prefix.nth(4n), RangeError);
  assert.throws(() => prefix.nth(-1n), RangeError);
  assert.throws(() => prefix.indexOf(Address.parse("10.0.0.4")), RangeError);
  assert.throws(() => prefix.indexOf(Address.parse("::1")), RangeError);
});

Deno.test("Prefix.subnet() parts lie within, apart, and in order", () => {
  fc.assert(
    fc.property(
      prefixes,
      fc.integer({ min: 0, max: 16 }),
      fc.bigInt(),
      (prefix, extra, any) => {
        const newLength = Math.min(prefix.length + extra, prefix.address.bits);
        const count = 1n << BigInt(newLength - prefix.length);
        const index = ((any % count) + count) % count;
        const part = prefix.subnet(newLength, index);
        assert.ok(prefix.contains(part));
        assert.equal(prefix.indexOf(part.address), index * part.size);
        if (index > 0n) {
          assert.ok(
            !part.overlaps(prefix.subnet(newLength, index - 1n)),
          );
        }
      },
    ),
  );
});

Deno.test("Prefix.subnet() cuts into equal parts", () => {
  assert.equal(
    Prefix.parse("10.2.0.0/24").subnet(30, 3n).toString(),
    "10.2.0.12/30",
  );
  assert.equal(
    Prefix.parse("fd02::900:0/116").subnet(123, 10n).toString(),
    "fd02::900:140/123",
  );
  assert.throws(() => Prefix.parse("10.2.0.0/24").subnet(30, 64n), RangeError);
  assert.throws(() => Prefix.parse("10.2.0.0/24").subnet(23, 0n), RangeError);
  assert.throws(() => Prefix.parse("10.2.0.0/24").subnet(33, 0n), RangeError);
});

Deno.test("Prefix.overlaps() means one contains the other, never across families", () => {
  fc.assert(fc.property(prefixes, prefixes, (a, b) => {
    const firstOf = (p: Prefix) => p.address.value;
    const lastOf = (p: Prefix) => p.address.value + p.size - 1n;
    const common = a.family === b.family && firstOf(a) <= lastOf(b) &&
      firstOf(b) <= lastOf(a);
    assert.equal(a.overlaps(b), common);
    assert.equal(b.overlaps(a), common);
  }));
  assert.ok(!Prefix.parse("0.0.0.0/0").contains(Prefix.parse("::/0")));
  assert.ok(Prefix.parse("10.0.0.0/8").contains(Prefix.parse("10.3.0.0/16")));
  assert.ok(!Prefix.parse("10.3.0.0/16").contains(Prefix.parse("10.0.0.0/8")));
});

Deno.test("Prefix.host() holds one address", () => {
  const host = Prefix.host(Address.parse("fd02::7"));
  assert.equal(host.toString(), "fd02::7/128");
  assert.equal(host.size, 1n);
});

Deno.test("Prefix.of() refuses lengths outside the family", () => {
  for (const length of [-1, 33, 1.5, NaN]) {
    assert.throws(
      () => Prefix.of(Address.parse("10.0.0.0"), length),
      RangeError,
    );
  }
});
