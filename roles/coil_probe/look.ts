import type {
  AddressFacts,
  NodeFacts,
  Way,
} from "../../lib/connectivity/mod.ts";
import { Address, FAMILIES, Prefix } from "../../lib/inet/mod.ts";
import { FORWARDING, type Netns, tryReadSysctl } from "../../lib/linux/mod.ts";
import {
  type Link,
  LOCAL_TABLE,
  type Route,
  routeLookUp,
  RouteSocket,
} from "../../lib/netlink/mod.ts";

/** Reads what the kernel knows of the addresses, in a network namespace: this process' unless given. */
export async function look(
  addresses: readonly string[],
  { netns }: { readonly netns?: Netns } = {},
): Promise<NodeFacts> {
  using socket = RouteSocket.open({ netns });
  const routes = (await socket.listRoutes())
    .filter(({ table, type }) => table !== LOCAL_TABLE && type === "unicast");
  const links = new Map(
    (await socket.listLinks()).map((link) => [link.index, link]),
  );
  const facts: Record<string, AddressFacts> = {};
  for (const text of addresses) {
    const address = Address.parse(text);
    facts[text] = {
      podLink: podLinkOf(address, { routes, links }),
      way: await wayTo(address, { socket, routes, links }),
    };
  }
  const forwards = FAMILIES.filter((family) =>
    tryReadSysctl(FORWARDING[family], { netns }) === "1"
  );
  return { forwards, addresses: facts };
}

interface Kernel {
  readonly routes: readonly Route[];
  readonly links: ReadonlyMap<number, Link>;
}

/** A pod's address has a route of its own, straight to its link. */
function podLinkOf(
  address: Address,
  { routes, links }: Kernel,
): string | undefined {
  const own = Prefix.host(address);
  const route = routes.find(({ destination, gateway, hops }) =>
    destination?.equals(own) && gateway === undefined && hops === undefined
  );
  return links.get(route?.index ?? 0)?.name;
}

async function wayTo(
  address: Address,
  { socket, routes, links }: Kernel & { readonly socket: RouteSocket },
): Promise<Way | undefined> {
  let found: Route | undefined;
  const [error] = await socket.tryExecute([
    routeLookUp(address, (route) => found = route),
  ]);
  const link = links.get(found?.index ?? 0);
  if (error !== undefined || found === undefined || link === undefined) {
    return undefined;
  }
  const { gateway } = found;
  return {
    link: link.name,
    mtu: link.mtu,
    gateway: gateway?.toString(),
    isDefault: !routes.some(({ destination }) =>
      destination !== undefined && destination.length > 0 &&
      destination.contains(address)
    ),
  };
}
