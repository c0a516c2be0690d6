// Whether pods have the addresses that they should.
import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import type { RunningPod } from "./pods.ts";

/** Each pod has one address of each subnet, and nobody has another's. */
export function assertAddresses(
  pods: readonly RunningPod[],
  subnets: readonly string[],
): void {
  const prefixes = subnets.map((subnet) => Prefix.parse(subnet));
  for (const { name, addresses } of pods) {
    const parsed = addresses.map((address) => Address.parse(address));
    const told = `${name} has ${addresses.join()}, not of ${subnets.join()}`;
    assert.equal(parsed.length, prefixes.length, told);
    for (const prefix of prefixes) {
      assert.ok(parsed.some((address) => prefix.contains(address)), told);
    }
  }
  const all = new Set(pods.flatMap(({ addresses }) => addresses));
  assert.equal(all.size, subnets.length * pods.length);
}
