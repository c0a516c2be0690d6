import { Address, type Family } from "../../inet/mod.ts";

/**
 * The source inside a node's probe of a gateway, by which the gateway knows it.
 * No host has it: the dummy address of RFC 7600, and one of the prefix that
 * discards (RFC 6666). A node's own would come back as a martian.
 */
export const PROBE_SOURCE: Readonly<Record<Family, Address>> = {
  ipv4: Address.parse("192.0.0.8"),
  ipv6: Address.parse("100::1"),
};
