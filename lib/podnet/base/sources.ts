import { ANY_SOURCE_LINK_GROUP, POD_LINK_GROUP } from "../../names/mod.ts";
import type { Ipv4Conf, Link } from "../../netlink/mod.ts";

/** Which sources a pod's packets may have: the pod's addresses (`own`), or any. */
export type PodSources = "own" | "any";

/** Source check settings of a host veth. */
export interface SourceSettings {
  /** The rules of the node's nftables table go by the link group. */
  readonly group: number;
  /**
   * `arpFilter` does for ARP what that table does for IP: without it the node
   * makes a neighbour of each sender that an ARP request invents. `rpFilter` is
   * what is left where the kernel cannot have the table; it is no more than
   * that, since it is only as strict as `net.ipv4.conf.all.rp_filter` allows,
   * and there is none for IPv6.
   */
  readonly ipv4Conf: Ipv4Conf;
}

/** The settings of a host veth for each choice. */
export const SOURCE_SETTINGS: Readonly<Record<PodSources, SourceSettings>> = {
  own: {
    group: POD_LINK_GROUP,
    ipv4Conf: { rpFilter: 1, arpFilter: true },
  },
  any: {
    group: ANY_SOURCE_LINK_GROUP,
    ipv4Conf: { rpFilter: 0, arpFilter: false },
  },
};

/**
 * Which sources the host takes from a pod by its veth. Undefined when the veth
 * does not have all settings of either: it is older than them, was made by
 * upstream Coil, or another program changed it.
 */
export function sourcesOf(link: Link): PodSources | undefined {
  const { group, ipv4Conf } = link;
  if (group === SOURCE_SETTINGS.any.group) return "any";
  const { own } = SOURCE_SETTINGS;
  const isOwn = group === own.group &&
    ipv4Conf?.rpFilter === own.ipv4Conf.rpFilter &&
    ipv4Conf.arpFilter === own.ipv4Conf.arpFilter;
  return isOwn ? "own" : undefined;
}
