import type { Family } from "../../inet/mod.ts";

/** An IPv4 or IPv6 header and a UDP header. */
const OVERHEAD_BYTES: Readonly<Record<Family, number>> = {
  ipv4: 20 + 8,
  ipv6: 40 + 8,
};

/** The least that a link must carry for the family to work on it: RFC 791, RFC 8200 section 5. */
const LEAST_BYTES: Readonly<Record<Family, number>> = {
  ipv4: 68,
  ipv6: 1280,
};

/**
 * The MTU of a tunnel link over a link of `linkMtu` bytes, so that a full inner
 * packet with both headers around it fits. The kernel's own idea of it is too
 * large for links that receive from any sender, and too small for IPv6.
 */
export function tunnelMtu(family: Family, linkMtu: number): number {
  return Math.max(LEAST_BYTES[family], linkMtu - OVERHEAD_BYTES[family]);
}
