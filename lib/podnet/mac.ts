import { Address } from "../inet/mod.ts";
import { formatMac, parseMac, type RandomBytes } from "../netlink/mod.ts";

/** Makes a random MAC address: unicast and locally administered (IEEE 802, bits 0 and 1 of the first octet). */
export function randomMac(random: RandomBytes): string {
  const bytes = random(new Uint8Array(6));
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return formatMac(bytes);
}

/**
 * The IPv6 link-local address of an interface by its MAC address: modified
 * EUI-64 (RFC 4291, appendix A).
 *
 * @throws {SyntaxError} when the text is no MAC address
 */
export function linkLocalOf(mac: string): Address {
  const [first = 0, ...rest] = parseMac(mac);
  const id = [first ^ 0x02, ...rest.slice(0, 2), 0xff, 0xfe, ...rest.slice(2)];
  return Address.fromBytes(
    Uint8Array.from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, ...id]),
  );
}
