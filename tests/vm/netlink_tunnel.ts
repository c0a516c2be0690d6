// What tests of tunnels share.
import type { FouEncap } from "../../lib/netlink/mod.ts";

/** The UDP port of the tunnels. */
export const PORT = 5555;

/** Datagrams from a port by the inner packet's flow, with a checksum. */
export const AUTO: FouEncap = {
  sourcePort: "auto",
  destinationPort: PORT,
  checksum: true,
};
