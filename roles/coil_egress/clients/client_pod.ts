import type { EgressClient } from "../../../lib/api/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** A pod that is a client of this gateway's Egress. */
export interface ClientPod extends NamespacedName {
  readonly uid: string;
  readonly nodeName: string;
  /** Its addresses as its status has them; none until it runs. */
  readonly addresses: readonly Address[];
}

/** Reads a client from its slice. What is not an address is left out. */
export function clientPodOf({ addresses, ...rest }: EgressClient): ClientPod {
  const parsed = (addresses ?? []).map((text) => Address.tryParse(text));
  return {
    ...rest,
    addresses: parsed.filter((address) => address !== undefined),
  };
}

/** Whether nothing of a client has changed. */
export function isSameClient(
  a: ClientPod | undefined,
  b: ClientPod | undefined,
): boolean {
  return a === b ||
    a !== undefined && b !== undefined && textOf(a) === textOf(b);
}

/** Whether a client has all these addresses. */
export function hasAll(pod: ClientPod, addresses: readonly Address[]): boolean {
  return addresses.every((wanted) =>
    pod.addresses.some((address) => address.equals(wanted))
  );
}

function textOf(
  { namespace, name, uid, nodeName, addresses }: ClientPod,
): string {
  return [namespace, name, uid, nodeName, ...addresses].join();
}
