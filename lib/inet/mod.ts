/**
 * Addresses and prefixes of both IP families: strict parsing, canonical text, arithmetic.
 *
 * @module
 */
export { Address } from "./address.ts";
export { distinct } from "./distinct.ts";
export { embedIpv4 } from "./embed.ts";
export {
  type DualStack,
  FAMILIES,
  type Family,
  mapDualStack,
  valuesOf,
} from "./family.ts";
export { hostPort } from "./host_port.ts";
export { Prefix } from "./prefix.ts";
export { PrefixMap } from "./prefix_map.ts";
export { AddressRange } from "./range.ts";
