import assert from "node:assert/strict";
import { Address } from "./address.ts";
import { Prefix } from "./prefix.ts";
import { PrefixMap } from "./prefix_map.ts";

function mapOf(...texts: string[]): PrefixMap<string> {
  const map = new PrefixMap<string>();
  for (const text of texts) {
    const [prefix = "", name = prefix] = text.split(" ");
    map.add(Prefix.parse(prefix), name);
  }
  return map;
}

Deno.test("PrefixMap.of() finds the prefixes of an address, of every length", () => {
  const map = mapOf("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "10.2.0.0/16");
  const find = (address: string) => map.of(Address.parse(address));
  assert.deepEqual(find("10.1.2.3"), [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3/32",
  ]);
  assert.deepEqual(find("10.1.2.4"), ["10.0.0.0/8", "10.1.0.0/16"]);
  assert.deepEqual(find("11.0.0.0"), []);
});

Deno.test("PrefixMap.of() keeps the values of one prefix in the order of their addition", () => {
  const map = mapOf("10.0.0.0/30 b", "10.0.0.0/30 a");
  assert.deepEqual(map.of(Address.parse("10.0.0.3")), ["b", "a"]);
});

Deno.test("PrefixMap.of() keeps the families apart", () => {
  const map = mapOf("::/0", "0.0.0.0/0", "::a00:0/128");
  assert.deepEqual(map.of(Address.parse("10.0.0.0")), ["0.0.0.0/0"]);
  assert.deepEqual(map.of(Address.parse("::a00:0")), ["::/0", "::a00:0/128"]);
});
