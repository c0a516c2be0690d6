import {
  FILTER_ACCEPT,
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
  return [
    ...PLACES[address.family].flatMap((at) => accepting(at, address)),
    { code: FILTER_CODES.return, k: 0 },
  ];
}

/** Ends the program if the frame has the address there, else goes on behind. */
function accepting(at: number, address: Address): FilterInstruction[] {
  const bytes = address.toBytes();
  const view = new DataView(bytes.buffer);
  const tests = bytes.length / 4 * 2;
  const program: FilterInstruction[] = [];
  for (let offset = 0; offset < bytes.length; offset += 4) {
    const jf = tests - program.length - 1;
    program.push(
      { code: FILTER_CODES.loadWord, k: at + offset },
      { code: FILTER_CODES.jumpEqual, k: view.getUint32(offset), jf },
    );
  }
  return [...program, { code: FILTER_CODES.return, k: FILTER_ACCEPT }];
}
