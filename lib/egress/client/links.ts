import type { Family } from "../../inet/mod.ts";
import {
  type Link,
  linkAddTunnel,
  linkChangeTunnel,
  linkDelete,
  linkSet,
  type Request,
  sameTunnel,
  type TunnelSpec,
} from "../../netlink/mod.ts";
import type { ClientPlan, ClientTunnel } from "../plan/plan.ts";
import { exists } from "../kernel/modules.ts";
import { tunnelMtu } from "../kernel/tunnel_mtu.ts";
import { TUNNEL_LINKS, TUNNEL_TTL } from "../kernel/tunnel_names.ts";

/** A link that the plan asks for. */
export interface WantedLink {
  readonly name: string;
  readonly family: Family;
  readonly tunnel: TunnelSpec;
  /** Absent: the kernel's. */
  readonly mtu?: number;
}

/** What to do about links. */
export interface LinkChanges {
  /** Create and change the wanted links; in this order. */
  readonly requests: readonly Request[];
  /** Links in the way that have to go first: their kind cannot be changed. */
  readonly conflicting: readonly Link[];
  /** Wanted links that exist when `requests` begin. */
  readonly present: readonly Link[];
  /** Names of the links that `requests` make. */
  readonly created: readonly string[];
  /** Wanted links that exist and that `requests` change. */
  readonly changed: readonly Link[];
  /** Links that the plan does not have. */
  readonly surplus: readonly Link[];
}

/** The links that a plan asks for: receivers first. `linkMtu` is that of the interface below. */
export function wantedLinks(plan: ClientPlan, linkMtu: number): WantedLink[] {
  return [
    ...plan.receiverFamilies.map((family): WantedLink => ({
      name: TUNNEL_LINKS[family].receiver,
      family,
      tunnel: { kind: TUNNEL_LINKS[family].kind, collectMetadata: true },
    })),
    ...plan.tunnels.map((tunnel): WantedLink => ({
      name: tunnel.name,
      family: tunnel.family,
      tunnel: tunnelSpec(tunnel, plan.port),
      mtu: tunnelMtu(tunnel.family, linkMtu),
    })),
  ];
}

function tunnelSpec(tunnel: ClientTunnel, port: number): TunnelSpec {
  const { family, local, remote, sourcePort } = tunnel;
  return {
    kind: TUNNEL_LINKS[family].kind,
    local,
    remote,
    ttl: TUNNEL_TTL,
    // None: the node translates the Service's address, and of a packet whose
    // inner checksum is left to the device (CHECKSUM_PARTIAL) the kernel then
    // spoils the outer one, which the gateway's node would drop.
    encap: { sourcePort, destinationPort: port, checksum: false },
  };
}

/** What the kernel can do. */
export interface KernelFacts {
  /** Whether links make link-local IPv6 addresses, in one mode or another. */
  readonly addrGen: boolean;
}

/** Asks the kernel: one without IPv6 has no sysctls of it. */
// mutate: a machine has one kernel.
export function kernelFacts(): KernelFacts {
  return { addrGen: exists("/proc/sys/net/ipv6/conf") };
}

/** Compares the wanted links with ours that are there. Pure. */
export function diffLinks(
  wanted: readonly WantedLink[],
  own: readonly Link[],
  facts: KernelFacts,
): LinkChanges {
  const byName = new Map(own.map((link) => [link.name, link]));
  const requests: Request[] = [];
  const conflicting: Link[] = [];
  const present: Link[] = [];
  const changed: Link[] = [];
  const created: string[] = [];
  for (const want of wanted) {
    const link = byName.get(want.name);
    byName.delete(want.name);
    if (link !== undefined && isChangeable(link, want)) {
      present.push(link);
      const changes = changeLink(link, want, facts);
      if (changes.length > 0) changed.push(link);
      requests.push(...changes);
      continue;
    }
    if (link !== undefined) conflicting.push(link);
    created.push(want.name);
    requests.push(...addLink(want, facts));
  }
  const surplus = [...byName.values()];
  return { requests, conflicting, present, changed, created, surplus };
}

/** Deletions of links, by index: another of the same name may have come in the meantime. */
export function deleteLinks(links: readonly Link[]): Request[] {
  return links.map(({ index }) => linkDelete({ index }));
}

/** A kind cannot be changed, nor can a receiver become a tunnel or the other way. */
function isChangeable(link: Link, { tunnel }: WantedLink): boolean {
  return link.kind === tunnel.kind && link.tunnel !== undefined &&
    (link.tunnel.remote === undefined) === (tunnel.remote === undefined) &&
    !link.tunnel.collectMetadata === !tunnel.collectMetadata;
}

/**
 * The kernel would give a tunnel a link-local IPv6 address, and with it send
 * router solicitations and multicast reports into the tunnel for ever.
 */
export function addLink(
  { name, tunnel, mtu }: WantedLink,
  { addrGen, index }: KernelFacts & { readonly index?: number },
): Request[] {
  const link = {
    name,
    tunnel,
    ...(mtu === undefined ? {} : { mtu }),
    ...(index === undefined ? {} : { index }),
  };
  if (!addrGen) return [linkAddTunnel({ ...link, up: true })];
  const selector = index === undefined ? { name } : { index };
  return [
    linkAddTunnel(link),
    linkSet(selector, { ipv6AddrGenMode: "none" }),
    linkSet(selector, { up: true }),
  ];
}

function changeLink(
  link: Link,
  { mtu, tunnel }: WantedLink,
  { addrGen }: KernelFacts,
): Request[] {
  const { index } = link;
  const requests: Request[] = [];
  const otherMtu = mtu !== undefined && link.mtu !== mtu;
  if (!sameTunnel(link.tunnel, tunnel)) {
    const options = mtu === undefined ? {} : { mtu };
    requests.push(linkChangeTunnel({ index }, tunnel, options));
  } else if (otherMtu) requests.push(linkSet({ index }, { mtu }));
  if (addrGen && link.ipv6AddrGenMode !== "none") {
    requests.push(linkSet({ index }, { ipv6AddrGenMode: "none" }));
  }
  if (!link.up) requests.push(linkSet({ index }, { up: true }));
  return requests;
}

/**
 * The new names of links that the kernel made by itself when it loaded the
 * tunnels' modules, as upstream Coil gives them; without receiver of the family
 * the kernel's name again. A link that is up has an owner, and keeps its name.
 */
export function renameFallbacks(
  links: readonly Link[],
  receiverFamilies: readonly Family[],
): Request[] {
  return Object.values(TUNNEL_LINKS).flatMap(({ kind, fallback }) => {
    const wanted = receiverFamilies.some((each) =>
      TUNNEL_LINKS[each].kind === kind
    );
    const [from, to] = wanted
      ? [fallback.from, fallback.to]
      : [fallback.to, fallback.from];
    const link = links.find(({ name, up }) => name === from && !up);
    const taken = links.some(({ name }) => name === to);
    if (link === undefined || link.kind !== kind || taken) return [];
    return [linkSet({ index: link.index }, { rename: to })];
  });
}
