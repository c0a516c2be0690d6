import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { isClientLink, tunnelFamily, tunnelName } from "./tunnel_names.ts";

for (
  const [address, name] of [
    ["10.68.114.217", "fou4_0a4472d9"],
    ["0.0.0.1", "fou4_00000001"],
    ["255.255.255.255", "fou4_ffffffff"],
    ["fd02::1", "fou6_49238ad5"],
  ] as const
) {
  Deno.test(`tunnelName() calls the tunnel to ${address} as upstream Coil does`, () => {
    assert.equal(tunnelName(Address.parse(address)), name);
    assert.equal(tunnelFamily(name), Address.parse(address).family);
  });
}

Deno.test("tunnelFamily() knows no other names", () => {
  for (
    const name of [
      "eth0",
      "fou5_0a4472d9",
      "fou4_0a4472d",
      "xfou4_0a4472d9",
      "fou4_0A4472D9",
      "coil_fou4",
    ]
  ) assert.equal(tunnelFamily(name), undefined, name);
});

Deno.test("isClientLink() knows tunnels, receivers, fallbacks and upstream's marker", () => {
  for (
    const name of [
      "fou6_49238ad5",
      "coil_ipip4",
      "coil_ipip6",
      "tunl0",
      "coil_tunl",
      "ip6tnl0",
      "coil_ip6tnl",
      "fou-dummy",
    ]
  ) assert.ok(isClientLink({ name }), name);
  for (const name of ["eth0", "net1", "tunl1", "coil_fou4"]) {
    assert.ok(!isClientLink({ name }), name);
  }
});
