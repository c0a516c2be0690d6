import fc from "fast-check";
import assert from "node:assert/strict";
import { Address } from "../../../inet/mod.ts";
import type { NftElement, NftKeyType } from "../model/model.ts";
import {
  decodeElement,
  encodeElement,
  keyOfTypeId,
  keySize,
  keyTypeId,
} from "./set_key.ts";
import { sortElements } from "../../../../tests/lab/plan_text/nft_table.ts";

const VALUES: Readonly<
  Record<NftKeyType, fc.Arbitrary<NftElement[number]>>
> = {
  ipv4_addr: fc.bigInt(0n, 2n ** 32n - 1n).map((n) => Address.of("ipv4", n)),
  ipv6_addr: fc.bigInt(0n, 2n ** 128n - 1n).map((n) => Address.of("ipv6", n)),
  mark: fc.nat(0xffffffff),
  ifname: fc.stringMatching(/^[a-z][a-z0-9_]{0,14}$/),
};

const KEY = fc.array(
  fc.constantFrom<NftKeyType>("ipv4_addr", "ipv6_addr", "ifname", "mark"),
  { minLength: 1, maxLength: 4 },
);
const KEY_AND_ELEMENT = KEY.chain((key) =>
  fc.tuple(fc.constant(key), fc.tuple(...key.map((type) => VALUES[type])))
);

Deno.test("encodeElement() and decodeElement() are each other's inverse", () => {
  fc.assert(fc.property(KEY_AND_ELEMENT, ([key, element]) => {
    const bytes = encodeElement(element, key);
    assert.equal(bytes.byteLength, keySize(key));
    assert.deepEqual(bytes, encodeElement(element));
    assert.deepEqual(
      decodeElement(bytes, key).map(String),
      element.map(String),
    );
  }));
});

Deno.test("keyTypeId() gives each key another number, which keyOfTypeId() knows", () => {
  fc.assert(
    fc.property(
      KEY,
      (key) => assert.deepEqual(keyOfTypeId(keyTypeId(key)), key),
    ),
  );
  assert.equal(keyTypeId(["ipv4_addr", "ipv4_addr"]), 0x1c7); // as nft sends it
  assert.equal(keyTypeId(["ifname"]), 41);
  assert.equal(keyOfTypeId(13), undefined); // inet_service
  assert.equal(keyOfTypeId(0), undefined);
});

Deno.test("encodeElement() writes addresses and names in network order, marks in the machine's", () => {
  const element = [
    Address.parse("10.1.2.3"),
    Address.parse("fd00::1:2"),
    "eth0",
    0x01020304,
  ];
  assert.deepEqual([...encodeElement(element)], [
    ...[10, 1, 2, 3],
    ...[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2],
    ...[0x65, 0x74, 0x68, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ...[4, 3, 2, 1],
  ]);
});

Deno.test("encodeElement() refuses what the set's key does not want", () => {
  const v4 = Address.parse("10.1.2.3");
  const cases: [NftElement, NftKeyType[]][] = [
    [[v4], ["ipv6_addr"]],
    [[v4], ["ipv4_addr", "ipv4_addr"]],
    [[v4, v4], ["ipv4_addr"]],
    [["eth0"], ["mark"]],
  ];
  for (const [element, key] of cases) {
    assert.throws(
      () => encodeElement(element, key),
      /^TypeError: Cannot use element ".*" in a set of /,
    );
  }
  assert.throws(() => encodeElement([2 ** 32]), RangeError);
  assert.throws(() => encodeElement(["a/b"]), SyntaxError);
});

Deno.test("sortElements() keeps one of each", () => {
  const [a, b] = [Address.parse("10.0.0.2"), Address.parse("9.0.0.1")];
  const set = {
    name: "s",
    key: ["ipv4_addr"],
    elements: [[a], [b], [a]],
  } as const;
  assert.deepEqual(sortElements(set).map(String), ["9.0.0.1", "10.0.0.2"]);
});
