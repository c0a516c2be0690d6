import assert from "node:assert/strict";
import { parseDestinations } from "./egress_destinations.ts";

function parse(...destinations: readonly string[]) {
  const { prefixes, ...rest } = parseDestinations(destinations);
  return { prefixes: prefixes.map(String), ...rest };
}

Deno.test("parseDestinations() keeps the order, both families and one inside another", () => {
  const destinations = ["10.1.0.0/16", "0.0.0.0/0", "fd00::/8", "10.0.0.0/8"];
  assert.deepEqual(parse(...destinations), {
    prefixes: destinations,
    invalid: [],
    remarks: [],
  });
});

Deno.test("parseDestinations() takes one that is there twice once, and says so", () => {
  assert.deepEqual(parse("fd02::/64", "10.0.0.0/8", "fd02:0::0/64"), {
    prefixes: ["fd02::/64", "10.0.0.0/8"],
    invalid: [],
    remarks: ["fd02:0::0/64 is duplicated"],
  });
});

Deno.test("parseDestinations() takes host bits away, and says so", () => {
  assert.deepEqual(parse("10.1.2.3/8", "fd02::1/128"), {
    prefixes: ["10.0.0.0/8", "fd02::1/128"],
    invalid: [],
    remarks: ["10.1.2.3/8 has host bits and means 10.0.0.0/8"],
  });
});

Deno.test("parseDestinations() sets aside what it cannot read", () => {
  assert.deepEqual(parse("10.0.0.0", "10.0.0.0/8"), {
    prefixes: ["10.0.0.0/8"],
    invalid: ["10.0.0.0"],
    remarks: [],
  });
});
