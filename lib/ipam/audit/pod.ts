import { Address, type DualStack, type Family } from "../../inet/mod.ts";
import type { V1Pod } from "../../kube/mod.ts";

/** The first address of each family in a pod's status; what is not an address is left out. */
export function addressesByFamily({ status }: V1Pod): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const { ip } of status?.podIPs ?? []) {
    const address = Address.tryParse(ip);
    if (address !== undefined) addresses[address.family] ??= address;
  }
  return addresses;
}
