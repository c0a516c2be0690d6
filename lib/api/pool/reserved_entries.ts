import { AddressRange, FAMILIES } from "../../inet/mod.ts";

/**
 * Parses a pool's `spec.reserved`.
 *
 * @throws {SyntaxError} when an entry is neither an address, a range nor a CIDR
 */
export function parseReserved(
  entries: readonly string[] = [],
): AddressRange[] {
  return entries.map((entry, index) => {
    const range = AddressRange.tryParse(entry);
    if (range !== undefined) return range;
    throw new SyntaxError(
      `spec.reserved[${index}]: neither an address, a range nor a CIDR: "${entry}"`,
    );
  });
}

/** All addresses of both families. */
export const EVERYTHING: readonly AddressRange[] = FAMILIES.flatMap((family) =>
  AddressRange.tryParse(family === "ipv4" ? "0.0.0.0/0" : "::/0") ?? []
);
