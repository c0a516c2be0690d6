import { Address, type DualStack, type Family } from "../../../lib/inet/mod.ts";
import { hasEnded, type V1Pod } from "../../../lib/kube/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** A pod's name. */
export function podName({ metadata }: V1Pod): NamespacedName {
  const { namespace = "", name = "" } = metadata ?? {};
  return { namespace, name };
}

/** Whether a pod has a network namespace of its own, and has not come to its end. */
export function hasOwnNetwork(pod: V1Pod): boolean {
  return pod.spec?.hostNetwork !== true && !hasEnded(pod);
}

/** The addresses in a pod's status; what does not parse is left out. */
export function podAddresses({ status }: V1Pod): Address[] {
  return (status?.podIPs ?? []).flatMap(({ ip }) =>
    Address.tryParse(ip ?? "") ?? []
  );
}

/** The addresses by family; the last one of each counts, as upstream. */
export function podAddressesByFamily(pod: V1Pod): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const address of podAddresses(pod)) addresses[address.family] = address;
  return addresses;
}
