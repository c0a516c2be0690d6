import { type Netns, readSysctl } from "../../linux/mod.ts";

/** The kernel's default (`ip_local_port_range` of its documentation). */
export const OWN_PORTS_FROM = 32_768;

const RANGE = "net/ipv4/ip_local_port_range";

/**
 * The first of the ports from which the kernel makes connections of the
 * namespace's own, of both families. Servers mostly have ports below.
 *
 * @throws {TypeError} when the kernel says something else than two numbers
 */
export function ownPortsFrom(netns: Netns): number {
  const text = readSysctl(RANGE, { netns });
  const first = /^(\d+)\s+\d+$/.exec(text)?.[1];
  if (first === undefined) {
    throw new TypeError(
      `Cannot read sysctl "${RANGE}": the value is "${text}"`,
    );
  }
  return Number(first);
}
