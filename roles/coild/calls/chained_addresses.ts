import { Address, type DualStack, type Family } from "../../../lib/inet/mod.ts";
import type { AddRequest } from "./cni_request.ts";

/**
 * The addresses that the plugins before gave to the interface that the call is
 * about; the first of each family counts, as upstream.
 *
 * An address that names no interface counts too: plugins that report only the
 * host's side give none. A client that hands no result over, as none of
 * Coil's does, is taken at its list of addresses.
 */
export function chainedAddresses(
  { ifname, prevResult, ips }: Pick<
    AddRequest,
    "ifname" | "prevResult" | "ips"
  >,
): DualStack<Address> {
  if (prevResult === undefined) return firstOfEach(ips);
  const { interfaces } = prevResult;
  const own = prevResult.ips.filter(({ interface: index }) => {
    if (index === undefined) return true;
    const end = interfaces[index];
    return end?.name === ifname && (end.sandbox ?? "") !== "";
  });
  return firstOfEach(own.map(({ address }) => address.replace(/\/.*$/, "")));
}

function firstOfEach(texts: readonly string[]): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const text of texts) {
    const address = Address.tryParse(text);
    if (address !== undefined) addresses[address.family] ??= address;
  }
  return addresses;
}
