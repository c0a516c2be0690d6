import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { addressesOf, duplicatesOf, isNetworkOf } from "./state.ts";

Deno.test("addressesOf() has the addresses of a link that others can reach, IPv4 first", () => {
  const reachable = [
    "fd00:10:6::100/64",
    "2001:db8::1/64",
    "10.6.0.100/24",
    "126.0.0.1/8",
    "128.0.0.1/8",
    "223.255.255.1/24",
  ];
  const others = [
    "127.0.0.1/8",
    "169.254.0.7/16",
    "224.0.0.1/4",
    "::1/128",
    "fe80::7/64",
    "ff02::1/128",
  ];
  const addresses = [
    ...[...others, ...reachable].map((text) => addressEntry(7, text)),
    addressEntry(8, "10.6.0.101/24"),
    addressEntry(7, "10.6.0.102/24", { dadFailed: true }),
  ];
  assert.deepEqual(addressesOf({ addresses }, 7).map(String), [
    "10.6.0.100",
    "126.0.0.1",
    "128.0.0.1",
    "223.255.255.1",
    "fd00:10:6::100",
    "2001:db8::1",
  ]);
  assert.deepEqual(addressesOf({ addresses }, undefined), []);
  assert.deepEqual(duplicatesOf({ addresses }, 7).map(String), ["10.6.0.102"]);
  assert.deepEqual(duplicatesOf({ addresses }, 8), []);
});

Deno.test("isNetworkOf() knows just the networks at links", () => {
  const addresses = [
    addressEntry(7, "10.6.0.100/24"),
    addressEntry(8, "fd00:10:7::100/64"),
  ];
  const isNetwork = (text: string) =>
    isNetworkOf({ addresses }, Prefix.parse(text));
  assert.ok(isNetwork("10.6.0.0/24"));
  assert.ok(isNetwork("fd00:10:7::/64"));
  assert.ok(!isNetwork("10.6.0.0/25"));
  assert.ok(!isNetwork("10.6.1.0/24"));
});
