import { Address, type Family } from "../inet/mod.ts";

/** AF_INET and AF_INET6 of `<linux/socket.h>`. */
const AF_INET = 2;
/** AF_INET6. */
export const AF_INET6 = 10;

/** The address family number of a family; 0, any, for undefined. */
export function familyNumber(family: Family | undefined): number {
  if (family === undefined) return 0;
  return family === "ipv4" ? AF_INET : AF_INET6;
}

/** The family of an address family number; undefined for those that are not IP. */
export function familyOf(number: number): Family | undefined {
  if (number === AF_INET) return "ipv4";
  return number === AF_INET6 ? "ipv6" : undefined;
}

/** The unspecified address, `0.0.0.0` or `::`. */
export function unspecified(family: Family): Address {
  return Address.of(family, 0n);
}

/** An address from an attribute; undefined when it is not there. */
export function addressFrom(
  bytes: Uint8Array | undefined,
): Address | undefined {
  return bytes && Address.fromBytes(bytes);
}
