import {
  acceptIf,
  bytesEqual,
  FILTER_CODES,
  type FilterInstruction,
} from "../linux/mod.ts";
import type { Address } from "../inet/mod.ts";

/** Where a frame of ARP has its sender and its target, and one of neighbour discovery the target, after their Ethernet headers. */
const PLACES = { ipv4: [28, 38], ipv6: [62] } as const;

/**
 * A socket filter for frames that may be about an address: others, of a busy
 * network or of many that ask at once, are not worth reading. Pure. A frame
 * that is too short is dropped.
 */
export function framesAbout(address: Address): FilterInstruction[] {
  const bytes = address.toBytes();
  return [
    ...PLACES[address.family].flatMap((at) => acceptIf(bytesEqual(at, bytes))),
    { code: FILTER_CODES.return, k: 0 },
  ];
}
