import type { Address, Prefix } from "../../../lib/inet/mod.ts";
import {
  type Eni,
  type Granted,
  NOTHING,
  type Subnet,
  type Wanted,
} from "./eni.ts";
import { Ec2Error, invalidValue } from "./errors.ts";
import type { InstanceType } from "./instance_types.ts";
import type { SubnetSpace } from "./subnet_space.ts";

function countOf(wanted: number | readonly unknown[]): number {
  return typeof wanted === "number" ? wanted : wanted.length;
}

/**
 * A prefix takes the place of one address.
 *
 * @throws {Ec2Error} when an ENI of such an instance cannot have so much
 */
export function checkLimits(
  eni: Eni,
  type: InstanceType,
  wanted: Wanted = NOTHING,
): void {
  const prefixes = eni.prefixes.length + countOf(wanted.prefixes);
  const prefixes6 = eni.prefixes6.length + wanted.prefixes6;
  if (type.hypervisor !== "nitro" && prefixes + prefixes6 > 0) {
    throw new Ec2Error(
      "UnsupportedOperation",
      `Prefixes are not supported for instances of type ${type.name}`,
    );
  }
  const count = 1 + eni.secondary.length + countOf(wanted.addresses) + prefixes;
  const count6 = eni.addresses6.length + wanted.addresses6 + prefixes6;
  if (Math.max(count, count6) > type.addresses) {
    throw new Ec2Error("PrivateIpAddressLimitExceeded");
  }
}

/** Takes from the subnet all that is wanted, or nothing: addresses or prefixes, of IPv4 not both. */
export function grant(subnet: Subnet, wanted: Wanted): Granted {
  const { space, space6 } = subnet;
  const { addresses6, prefixes6 } = wanted;
  if (space6 === undefined && addresses6 + prefixes6 > 0) {
    throw invalidValue(`Subnet ${subnet.id} has no IPv6 CIDR block`);
  }
  return {
    secondary: takeAll(space, wanted.addresses, (n) => space.take(n)),
    prefixes: takeAll(space, wanted.prefixes, (n) => space.takePrefixes(n)),
    addresses6: space6?.take(addresses6) ?? [],
    prefixes6: space6?.takePrefixes(prefixes6) ?? [],
  };
}

function takeAll<T extends Address | Prefix>(
  space: SubnetSpace,
  wanted: number | readonly T[],
  take: (count: number) => T[],
): readonly T[] {
  if (typeof wanted === "number") return take(wanted);
  const taken: T[] = [];
  try {
    for (const it of wanted) {
      space.takeThis(it);
      taken.push(it);
    }
  } catch (error) {
    for (const it of taken) space.release(it);
    throw error;
  }
  return taken;
}
