import { Address } from "../inet/mod.ts";

/** Fills an array with random bytes, as `crypto.getRandomValues()` does. */
export type RandomBytes = (
  bytes: Uint8Array<ArrayBuffer>,
) => Uint8Array<ArrayBuffer>;

/** Makes a random MAC address: unicast and locally administered (IEEE 802, bits 0 and 1 of the first octet). */
export function randomMac(random: RandomBytes): string {
  const bytes = random(new Uint8Array(6));
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join(":");
}

/** The IPv6 link-local address of an interface by its MAC address: modified EUI-64 (RFC 4291, appendix A). */
export function linkLocalOf(mac: string): Address {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(mac)) {
    throw new SyntaxError(
      `Cannot parse MAC address: current value is "${mac}"`,
    );
  }
  const bytes = mac.split(":").map((octet) => Number.parseInt(octet, 16));
  const id = [
    (bytes[0] ?? 0) ^ 0x02,
    ...bytes.slice(1, 3),
    0xff,
    0xfe,
    ...bytes.slice(3),
  ];
  return Address.fromBytes(
    Uint8Array.from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, ...id]),
  );
}
