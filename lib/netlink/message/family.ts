import { Address, type Family, Prefix } from "../../inet/mod.ts";

/** AF_INET of `<linux/socket.h>`. */
export const AF_INET = 2;
/** AF_INET6 of `<linux/socket.h>`. */
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

/**
 * Reads an address from an attribute; undefined when it is not there.
 *
 * @throws {SyntaxError} when its size is not that of an address of the family
 */
export function parseIp(
  bytes: Uint8Array | undefined,
  family: Family,
): Address | undefined {
  if (bytes === undefined) return undefined;
  const address = bytes.byteLength === 4 || bytes.byteLength === 16
    ? Address.fromBytes(bytes)
    : undefined;
  if (address?.family !== family) {
    throw new SyntaxError(
      `Cannot parse ${family} address: it has ${bytes.byteLength} bytes`,
    );
  }
  return address;
}

/**
 * Reads a prefix from an attribute and a length; undefined when the attribute is not there.
 *
 * @throws {SyntaxError} when either does not fit the family
 */
export function parsePrefix(
  bytes: Uint8Array | undefined,
  options: { family: Family; length: number },
): Prefix | undefined {
  const address = parseIp(bytes, options.family);
  if (address === undefined) return undefined;
  if (options.length > address.bits) {
    throw new SyntaxError(
      `Cannot parse ${options.family} prefix: its length is ${options.length}`,
    );
  }
  return Prefix.of(address, options.length);
}
