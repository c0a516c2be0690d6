import assert from "node:assert/strict";
import { parseNode } from "./node_source.ts";

function node(addresses: { type: string; address: string }[]) {
  return { metadata: { name: "n", uid: "u" }, status: { addresses } };
}

Deno.test("parseNode() takes the last InternalIP of each family", () => {
  const { addresses } = parseNode(node([
    { type: "InternalIP", address: "10.0.0.1" },
    { type: "ExternalIP", address: "192.0.2.1" },
    { type: "InternalIP", address: "fd00::1" },
    { type: "InternalIP", address: "10.0.0.2" },
    { type: "Hostname", address: "n" },
  ]));
  assert.equal(addresses.ipv4?.toString(), "10.0.0.2");
  assert.equal(addresses.ipv6?.toString(), "fd00::1");
});

for (const family of ["ipv4", "ipv6"] as const) {
  Deno.test(`NI-9: parseNode() leaves the family out that a node with only ${family} lacks`, () => {
    const address = family === "ipv4" ? "10.0.0.1" : "fd00::1";
    const { addresses } = parseNode(node([{ type: "InternalIP", address }]));
    assert.deepEqual(Object.keys(addresses), [family]);
  });
}

Deno.test("parseNode() lives with what is no address", () => {
  const { addresses } = parseNode(node([{ type: "InternalIP", address: "x" }]));
  assert.deepEqual(addresses, {});
});
