import type { Address } from "../../inet/mod.ts";

/** The first two bytes of a MAC address, such as `0a:1b`. */
export type MacPrefix = string;

const TWO_BYTES = /^[0-9a-f]{2}:[0-9a-f]{2}$/;

/** What is wrong with a MAC prefix; undefined when it can be used. */
export function macPrefixProblem(text: string): string | undefined {
  if (!TWO_BYTES.test(text.toLowerCase())) return "not a valid MAC prefix";
  const isMulticast = (Number.parseInt(text.slice(0, 2), 16) & 1) !== 0;
  return isMulticast
    ? "not a unicast MAC: the lowest bit of the first byte must be 0"
    : undefined;
}

/** The MAC address of an interface: the prefix, and the last four bytes of its address. */
export function prefixedMac(prefix: MacPrefix, address: Address): string {
  const bytes = [...address.toBytes().slice(-4)];
  return [prefix, ...bytes.map((byte) => byte.toString(16).padStart(2, "0"))]
    .join(":");
}
