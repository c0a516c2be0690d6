import type { Family } from "../../inet/mod.ts";
import type { ProbeLink } from "../../probe/mod.ts";
import type { Kernel } from "../kernel/ports.ts";

/**
 * The link by which a pod's interface asks whether its address is in use. ARP
 * asks for that from no address, and the kernel hands an ipvlan only what is
 * for its own addresses (ipvlan_addr_lookup() of drivers/net/ipvlan): the
 * answers are its parent's, whose MAC address it has.
 */
export async function conflictLink(
  { pod, host, hostNetns }: Pick<Kernel, "pod" | "host" | "hostNetns">,
  link: ProbeLink,
  family: Family,
): Promise<ProbeLink> {
  if (family !== "ipv4") return link;
  const { kind, peerIndex: index } = await pod.getLink(link) ?? {};
  if (kind !== "ipvlan" || index === undefined) return link;
  const parent = await host.getLink({ index });
  // Another one's number, where the parent is not on the host.
  if (parent?.mac !== link.mac) return link;
  return { netns: hostNetns, index, mac: link.mac };
}
