import { type Address, FAMILIES, type Family } from "../../inet/mod.ts";
import { invalidConfig } from "../config/invalid.ts";

/**
 * The families of an interface's addresses.
 *
 * @throws {CniError} with code 7 when it has none that can be used
 */
export function familiesOf(
  nic: string,
  addresses: readonly Address[],
): readonly Family[] {
  const families = FAMILIES.filter((family) =>
    addresses.some((address) => address.family === family)
  );
  if (families.length > 0) return families;
  throw invalidConfig(
    `no usable IP addresses on "${nic}"`,
    "the plugin before coordinator must give it an address that is neither link-local nor another machine's",
  );
}

/** The first address of a family. */
export function firstOf(
  family: Family,
  addresses: readonly Address[],
): Address | undefined {
  return addresses.find((address) => address.family === family);
}
