import { createHash } from "node:crypto";
import { Address } from "../../inet/mod.ts";
import { formatMac, parseMac, type RandomBytes } from "../../netlink/mod.ts";
import { type NamespacedName, nameText } from "../../names/mod.ts";

/** What the MAC address of a pod's host end begins with where the rest names the pod; a random one does by chance of 2^-14. */
const MARK = "c2:0c:";

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
 * @throws {SyntaxError} when the text is not a MAC address
 */
export function linkLocalOf(mac: string): Address {
  const [first = 0, ...rest] = parseMac(mac);
  const id = [first ^ 0x02, ...rest.slice(0, 2), 0xff, 0xfe, ...rest.slice(2)];
  return Address.fromBytes(
    Uint8Array.from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, ...id]),
  );
}

/**
 * The MAC address of a pod's host end, by the pod's name: unicast and locally
 * administered. It outlives the daemon, and costs the kernel nothing; the
 * link's alias, in upstream's form, has no room for a name.
 */
export function markedMac(pod: NamespacedName): string {
  const hash = createHash("sha1").update(nameText(pod)).digest("hex");
  return MARK + hash.slice(0, 8).replace(/..(?=.)/g, "$&:");
}

/**
 * Whether the MAC address of a host end names this pod; undefined where it
 * names none, as that of a link which upstream or an older version made.
 */
export function isMarkedFor(
  mac: string | undefined,
  pod: NamespacedName,
): boolean | undefined {
  if (mac === undefined || !mac.startsWith(MARK)) return undefined;
  return mac === markedMac(pod);
}
