import { type Address, distinct } from "../../inet/mod.ts";
import type { AddressEntry } from "../../netlink/mod.ts";

/** Links of the host whose addresses are no way to the host: those of containers and of other plugins. */
const NOT_THE_HOSTS = [
  /^docker/,
  /^cbr/,
  /^dummy/,
  /^virbr/,
  /^lxcbr/,
  /^veth/,
  /^lo$/,
  /^cali/,
  /^flannel/,
  /^kube-ipvs/,
  /^cni/,
  /^vx-submariner/,
  /^cilium/,
];

/** Whether the addresses of a link are the host's own. Upstream's list, but that `ciliu0` counts. */
export function isHostLink(name: string): boolean {
  return !NOT_THE_HOSTS.some((pattern) => pattern.test(name));
}

/** What the host's addresses are chosen from. */
export interface HostFacts {
  /** The sources that the host would use towards the pod's addresses. */
  readonly sources: readonly Address[];
  /** All addresses of the host. */
  readonly addresses: readonly AddressEntry[];
  /** Names of the host's links by index; others do not count. */
  readonly names: ReadonlyMap<number, string>;
}

/**
 * The addresses by which pods reach the host, each once. The first of a family
 * is the one that the host would use itself: it is the gateway of what goes
 * through the host.
 */
export function chooseHostAddresses(facts: HostFacts): Address[] {
  const own = facts.addresses.filter((entry) => {
    const name = facts.names.get(entry.index);
    return entry.scope === "global" && !entry.dadFailed &&
      !entry.prefix.address.isLinkLocal && name !== undefined &&
      isHostLink(name);
  }).map(({ prefix }) => prefix.address);
  const sources = facts.sources.filter((source) =>
    own.some((address) => address.equals(source))
  );
  return distinct([...sources, ...own]);
}
