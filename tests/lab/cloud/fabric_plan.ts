import type { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { FabricConfig, HostConfig } from "./config.ts";
import type { Enis } from "./eni.ts";

/** Where an attached ENI is plugged in: a veth between the fabric and the node. */
export interface Port {
  /** In the fabric. */
  readonly name: string;
  readonly eniId: string;
  readonly mac: string;
  /** Network namespace of the node, and the ENI's name in it. */
  readonly netns: string;
  readonly link: string;
  readonly deviceIndex: number;
  readonly gateways: readonly Address[];
  readonly primary: Address;
  readonly primaryLength: number;
  /** All that the ENI may send from, its primary address included. */
  readonly sources: readonly (Address | Prefix)[];
  /** Single ones of IPv6. */
  readonly addresses6: readonly Address[];
}

/** Largest frames of a VPC. */
const MTU = 9001;
/** The VPC's router on each port. */
export const ROUTER6 = "fe80::1";
/** Behind which the fabric finds what is IPv6 of an ENI: no address of the node, just a neighbour with the ENI's MAC. */
const NEXT_HOP6 = "fe80::2";
const TABLE = "inet fabric";
/** Counts packets to hosts outside of the VPC whose source has no public address. */
export const NOT_PUBLIC = "not_public";

/** What is plugged in when ENIs are as they are. One that is being detached is not. */
export function planPorts(
  enis: Enis,
  nodes: FabricConfig["nodes"],
): readonly Port[] {
  return [...enis.values()].flatMap((eni) => {
    const { attachment, subnet: { space, space6 } } = eni;
    const netns = nodes[attachment?.instance.id ?? ""];
    if (attachment === undefined || netns === undefined) return [];
    if (attachment.status === "detaching") return [];
    const { deviceIndex } = attachment;
    const { addresses6, secondary, prefixes, prefixes6, primary } = eni;
    const router6 = space6 === undefined ? [] : [space6.cidr.nth(1n)];
    return [{
      name: `eni${Number.parseInt(eni.id.slice("eni-".length), 16)}`,
      eniId: eni.id,
      mac: eni.mac,
      netns,
      link: `eth${deviceIndex}`,
      deviceIndex,
      gateways: [space.cidr.nth(1n), ...router6],
      primary,
      primaryLength: space.cidr.length,
      sources: [
        primary,
        ...secondary,
        ...prefixes,
        ...addresses6,
        ...prefixes6,
      ],
      addresses6,
    }];
  });
}

/** Commands of `ip` in the fabric that make a port. */
export function portCommands(port: Port): readonly string[] {
  const { name, mac, netns, link, gateways, primary } = port;
  return [
    `link add ${name} mtu ${MTU} type veth peer name ${link} netns ${netns} address ${mac} mtu ${MTU}`,
    ...gateways.map((it) => addressCommand(name, it)),
    ...routerCommands(name),
    // A VPC knows where addresses are, and asks for none.
    `neigh replace ${primary} lladdr ${mac} dev ${name} nud permanent`,
    `neigh replace ${NEXT_HOP6} lladdr ${mac} dev ${name} nud permanent`,
    `route replace ${primary} dev ${name}`,
  ];
}

function routerCommands(link: string): readonly string[] {
  return [
    `link set ${link} addrgenmode none up`,
    `address add ${ROUTER6}/64 dev ${link} nodad`,
    // What it answers for others comes at once, too.
    `ntable change name arp_cache dev ${link} proxy_delay 0`,
  ];
}

function addressCommand(link: string, address: Address): string {
  const nodad = address.family === "ipv6" ? " nodad" : "";
  return `address add ${address}/${address.bits} dev ${link}${nodad}`;
}

/** Commands of `ip` in the node that do what DHCP does for the primary ENI. */
export function dhcpCommands(port: Port): readonly string[] {
  const { link, gateways, primary, primaryLength, addresses6 } = port;
  const [gateway] = gateways;
  return [
    `address add ${primary}/${primaryLength} dev ${link}`,
    ...addresses6.map((it) => addressCommand(link, it)),
    `link set ${link} up`,
    `route add default via ${gateway} dev ${link}`,
    ...(addresses6.length === 0
      ? []
      : [`route add ::/0 via ${ROUTER6} dev ${link}`]),
  ];
}

/** What `ip route` in the fabric gets for what a port's ENI has beside its primary address. */
export function portRoutes(port: Port): readonly string[] {
  const { name, sources, primary } = port;
  return sources.slice(1).map((it) => {
    const hop = it.family === "ipv4" ? `${primary}` : `inet6 ${NEXT_HOP6}`;
    return `${it} via ${hop} dev ${name} onlink`;
  });
}

/** Commands of `ip` in the fabric that join a host; of those in the host, see below. */
export function hostCommands(
  name: string,
  host: HostConfig,
): readonly string[] {
  return [
    `link add ${name} mtu ${MTU} type veth peer name eth0 netns ${host.netns} mtu ${MTU}`,
    ...routerCommands(name),
    ...host.addresses.map((it) => `route replace ${it} dev ${name}`),
  ];
}

/** Commands of `ip` in a host. */
export function hostOwnCommands({ addresses }: HostConfig): readonly string[] {
  const isV6 = (address: string) => address.includes(":");
  return [
    ...addresses.map((it) =>
      isV6(it)
        ? `address add ${it}/128 dev eth0 nodad`
        : `address add ${it}/32 dev eth0`
    ),
    "link set eth0 up",
    // The fabric answers for every address that it has a route to.
    "route add default dev eth0",
    ...(addresses.some(isV6) ? [`route add ::/0 via ${ROUTER6} dev eth0`] : []),
  ];
}

/** What nftables needs of the fabric. */
export interface Checks {
  readonly ports: readonly Port[];
  /** Names of ports that were there before and are not now. */
  readonly gone: readonly string[];
  /** Links to hosts outside of the VPC. */
  readonly outside: readonly string[];
  readonly imdsHopLimit: number;
}

/** A transaction of `nft`: what is not of an ENI is counted and dropped at its port. Counters keep their values. */
export function checkCommands(checks: Checks): string {
  const { ports, gone, outside, imdsHopLimit } = checks;
  const chain = (name: string, place: string) => [
    `add chain ${TABLE} ${name} { type filter hook ${place}; }`,
    `flush chain ${TABLE} ${name}`,
  ];
  return [
    `add table ${TABLE}`,
    ...chain("source", "prerouting priority raw"),
    ...chain("public", "forward priority filter"),
    ...chain("metadata", "output priority mangle"),
    ...gone.flatMap((name) => [
      `delete set ${TABLE} ${name}_ipv4`,
      `delete set ${TABLE} ${name}_ipv6`,
      `delete counter ${TABLE} ${name}`,
    ]),
    ...ports.flatMap(sourceCheck),
    `add counter ${TABLE} ${NOT_PUBLIC}`,
    ...addressSet("public", "ipv4", publicOf(ports)),
    ...outside.map((link) =>
      `add rule ${TABLE} public oifname "${link}" ip saddr != @public counter name ${NOT_PUBLIC} drop`
    ),
    // Longer ways are those of pods that must not get there.
    `add rule ${TABLE} metadata ip saddr 169.254.169.254 ip ttl set ${imdsHopLimit}`,
    "",
  ].join("\n");
}

function publicOf(ports: readonly Port[]): Address[] {
  return ports.filter(({ deviceIndex }) => deviceIndex === 0)
    .map(({ primary }) => primary);
}

function sourceCheck({ name, mac, sources }: Port): string[] {
  const of = (family: string) => sources.filter((it) => it.family === family);
  const drop = `counter name ${name} drop`;
  const rule = `add rule ${TABLE} source iifname "${name}"`;
  return [
    `add counter ${TABLE} ${name}`,
    ...addressSet(`${name}_ipv4`, "ipv4", of("ipv4")),
    ...addressSet(`${name}_ipv6`, "ipv6", of("ipv6")),
    `${rule} ether saddr != ${mac} ${drop}`,
    `${rule} ip saddr != @${name}_ipv4 ${drop}`,
    // Neighbours are found by link-local addresses, and before there are any.
    `${rule} ip6 saddr != { ::, fe80::/10 } ip6 saddr != @${name}_ipv6 ${drop}`,
  ];
}

function addressSet(
  name: string,
  family: "ipv4" | "ipv6",
  addresses: readonly (Address | Prefix)[],
): string[] {
  return [
    `add set ${TABLE} ${name} { type ${family}_addr; flags interval; }`,
    `flush set ${TABLE} ${name}`,
    ...(addresses.length === 0
      ? []
      : [`add element ${TABLE} ${name} { ${addresses.join(", ")} }`]),
  ];
}
