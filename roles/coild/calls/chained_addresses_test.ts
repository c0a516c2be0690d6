import assert from "node:assert/strict";
import { parseResult } from "../../../lib/cni/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import { chainedAddresses } from "./chained_addresses.ts";

const SANDBOX = "/run/netns/p";

function addresses(
  prevResult: unknown,
  options: { readonly ifname?: string; readonly ips?: string[] } = {},
): string[] {
  return valuesOf(chainedAddresses({
    ifname: options.ifname ?? "eth0",
    ips: options.ips ?? [],
    ...(prevResult !== undefined && { prevResult: parseResult(prevResult) }),
  })).map(String);
}

Deno.test("chainedAddresses() takes those of the pod's interface, IPv4 first", () => {
  const prevResult = {
    cniVersion: "1.0.0",
    interfaces: [
      { name: "veth0" },
      { name: "eth0", sandbox: SANDBOX },
      { name: "net1", sandbox: SANDBOX },
    ],
    ips: [
      { address: "fd01::2/64", interface: 1 },
      { address: "10.2.0.9/24", interface: 2 },
      { address: "10.1.0.2/24", interface: 1 },
      { address: "192.0.2.1/32", interface: 0 },
    ],
  };
  assert.deepEqual(addresses(prevResult), ["10.1.0.2", "fd01::2"]);
  assert.deepEqual(addresses(prevResult, { ifname: "net1" }), ["10.2.0.9"]);
  assert.deepEqual(addresses(prevResult, { ifname: "eth9" }), []);
});

Deno.test("W16: chainedAddresses() takes the first of two of one family, and none for the other", () => {
  assert.deepEqual(
    addresses({
      cniVersion: "0.4.0",
      interfaces: [{ name: "eth0", sandbox: SANDBOX }],
      ips: [
        { version: "4", address: "10.1.0.2/24", interface: 0 },
        { version: "4", address: "10.1.0.3/24", interface: 0 },
      ],
    }),
    ["10.1.0.2"],
  );
});

Deno.test("chainedAddresses() takes addresses of no interface, as Calico reports them", () => {
  assert.deepEqual(
    addresses({
      cniVersion: "0.3.1",
      interfaces: [{ name: "cali0123" }],
      ips: [{ version: "4", address: "10.1.0.2/32" }],
    }),
    ["10.1.0.2"],
  );
});

Deno.test("chainedAddresses() takes the plugin's list when there is no result", () => {
  assert.deepEqual(
    addresses(undefined, { ips: ["fd01::2", "10.1.0.2", "x"] }),
    ["10.1.0.2", "fd01::2"],
  );
});
