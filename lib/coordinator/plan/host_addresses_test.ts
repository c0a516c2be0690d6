import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { chooseHostAddresses, isHostLink } from "./host_addresses.ts";

function chosen(sources: readonly string[]): string[] {
  return chooseHostAddresses({
    sources: sources.map(Address.parse),
    addresses: [
      addressEntry(1, "10.0.0.1/24"),
      addressEntry(2, "10.0.0.2/24"),
      addressEntry(2, "fd00::2/24"),
      addressEntry(2, "fe80::2/24", { scope: "link" }),
      addressEntry(2, "10.0.0.7/24", { dadFailed: true }),
      addressEntry(3, "172.17.0.1/24"),
      addressEntry(4, "10.0.0.2/24"),
      addressEntry(5, "10.0.0.5/24", { scope: "link" }),
      addressEntry(9, "10.0.0.9/24"),
    ],
    names: new Map([
      [1, "ens1"],
      [2, "ens0"],
      [3, "docker0"],
      [4, "veth12"],
      [5, "ens5"],
    ]),
  }).map(String);
}

Deno.test("chooseHostAddresses() has the host's own, each once, those that it would use first", () => {
  assert.deepEqual(chosen([]), ["10.0.0.1", "10.0.0.2", "fd00::2"]);
  assert.deepEqual(chosen(["10.0.0.2"]), ["10.0.0.2", "10.0.0.1", "fd00::2"]);
  // What is not the host's own is no way to it, even where the kernel would use it.
  assert.deepEqual(chosen(["172.17.0.1", "169.254.1.1"]), chosen([]));
});

Deno.test("isHostLink() knows links of containers and other plugins by their names", () => {
  const names = [
    "docker0",
    "cali1",
    "lo",
    "cilium_host",
    "kube-ipvs0",
    "veth1",
  ];
  for (const name of names) assert.equal(isHostLink(name), false, name);
  for (const name of ["ens0", "ciliu0", "lo0", "bond0.7", "xveth"]) {
    assert.equal(isHostLink(name), true, name);
  }
});
