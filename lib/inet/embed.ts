import { Address } from "./address.ts";
import { Prefix } from "./prefix.ts";

/**
 * The IPv6 network that an IPv4 network is the end of: `10.0.1.16/28` in `fd00::/80` is `fd00::a00:110/124`. Neither
 * may be of the other's family, and the IPv6 network has to leave 32 bits.
 *
 * @throws {RangeError} otherwise
 */
export function embedIpv4(network: Prefix, ipv4: Prefix): Prefix {
  const fits = network.family === "ipv6" && network.hostBits >= 32 &&
    ipv4.family === "ipv4";
  if (!fits) throw new RangeError(`Cannot embed "${ipv4}" in "${network}"`);
  const value = network.address.value | ipv4.address.value;
  const address = Address.of("ipv6", value);
  return Prefix.of(address, address.bits - ipv4.hostBits);
}
