import { FAMILIES, type Family, valuesOf } from "../../inet/mod.ts";
import {
  type FouPort,
  type Link,
  linkAddTunnel,
  linkChangeTunnel,
  linkDelete,
  linkSet,
  type Request,
  type RouteSocket,
  sameTunnel,
  type TunnelSpec,
} from "../../netlink/mod.ts";
import { fouPort } from "../kernel/fou_ports.ts";
import { SERVER_LINK_NAMES, type ServerPlan } from "../gateway_plan/plan.ts";
import { tunnelMtu } from "../kernel/tunnel_mtu.ts";
import {
  TUNNEL_LINKS,
  tunnelFamily,
  UPSTREAM_MARKER,
} from "../kernel/tunnel_names.ts";
import type { ServerFamily } from "../gateway_plan/family.ts";

/** Upstream Coil's mark of a prepared gateway: a link of kind `dummy` without a use. */
const UPSTREAM_SERVER_MARKER = "egress-dummy";

/** The part of a route socket that is needed here. */
export type LinkKernel = Pick<RouteSocket, "execute" | "getLink">;

/**
 * Makes the tunnel device of a family as planned and returns its index. What is
 * there of the right kind is changed in place, so that its routes stay.
 *
 * @throws {NetlinkError} when the kernel refuses
 * @throws {Error} when the gateway's own interface is missing
 */
export async function ensureServerLink(
  kernel: LinkKernel,
  plan: ServerPlan,
  { family, link }: ServerFamily,
): Promise<number> {
  const mtu = link.mtu ?? tunnelMtu(family, await mtuOf(kernel, plan.ifname));
  const { name, tunnel } = link;
  const present = await kernel.getLink({ name });
  if (present === undefined) {
    await kernel.execute(creation(link.name, { family, tunnel, mtu }));
  } else if (present.kind !== tunnel.kind) {
    await kernel.execute([
      linkDelete({ index: present.index }),
      ...creation(name, { family, tunnel, mtu }),
    ]);
  } else {
    await kernel.execute(correction(present, { tunnel, mtu }));
    return present.index;
  }
  const made = await kernel.getLink({ name });
  if (made === undefined) {
    throw new Error(
      `Cannot make tunnel device "${name}": another program deleted it at once`,
    );
  }
  return made.index;
}

async function mtuOf(kernel: LinkKernel, name: string): Promise<number> {
  const link = await kernel.getLink({ name });
  if (link !== undefined) return link.mtu;
  throw new Error(
    `Cannot make the tunnel of an egress gateway: its network namespace has no interface "${name}"`,
  );
}

/** A link-local address of its own is not needed, and is not to be generated on setting up. */
function creation(
  name: string,
  options: {
    readonly family: Family;
    readonly tunnel: TunnelSpec;
    readonly mtu: number;
  },
): Request[] {
  const { family, tunnel, mtu } = options;
  const quiet = family === "ipv6"
    ? [linkSet({ name }, { ipv6AddrGenMode: "none" })]
    : [];
  return [
    linkAddTunnel({ name, tunnel, mtu }),
    ...quiet,
    linkSet({ name }, { up: true }),
  ];
}

function correction(
  { index, mtu, tunnel, up }: Link,
  wanted: { readonly tunnel: TunnelSpec; readonly mtu: number },
): Request[] {
  const requests: Request[] = [];
  if (!sameTunnel(tunnel, wanted.tunnel)) {
    requests.push(
      linkChangeTunnel({ index }, wanted.tunnel, { mtu: wanted.mtu }),
    );
  }
  // The kernel may choose another when a tunnel changes.
  if (mtu !== wanted.mtu || requests.length > 0) {
    requests.push(linkSet({ index }, { mtu: wanted.mtu }));
  }
  if (!up) requests.push(linkSet({ index }, { up: true }));
  return requests;
}

/**
 * Links of an earlier gateway, ours or upstream Coil's, that the plan does not
 * have: one per client, receivers, markers, the device of a family that is no
 * longer served.
 */
export function leftoverLinks(
  links: readonly Link[],
  plan: ServerPlan,
): Link[] {
  const planned = new Set(
    valuesOf(plan.families).map(({ link }) => link.name),
  );
  return links.filter(({ name, kind }) => {
    if (name === UPSTREAM_MARKER || name === UPSTREAM_SERVER_MARKER) {
      return kind === "dummy";
    }
    const family = familyOfLink(name);
    return family !== undefined && kind === TUNNEL_LINKS[family].kind &&
      !planned.has(name);
  });
}

function familyOfLink(name: string): Family | undefined {
  return tunnelFamily(name) ??
    FAMILIES.find((family) =>
      name === TUNNEL_LINKS[family].receiver ||
      name === SERVER_LINK_NAMES[family]
    );
}

/** The ports that these tunnels use and the plan does not: of a gateway with another port. */
export function leftoverPorts(
  links: readonly Link[],
  plan: ServerPlan,
): FouPort[] {
  const found = new Map<string, FouPort>();
  for (const { name, tunnel } of links) {
    const family = familyOfLink(name);
    const port = tunnel?.encap?.destinationPort;
    if (family === undefined || port === undefined) continue;
    if (plan.families[family]?.fouPort.port === port) continue;
    found.set(`${family} ${port}`, fouPort(family, port));
  }
  return [...found.values()];
}
