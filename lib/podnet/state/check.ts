import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import { type Link, MAIN_TABLE, RouteSocket } from "../../netlink/mod.ts";
import { POD_LINK_GROUP } from "../../names/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import { openPodNetns } from "../netns/pod_netns.ts";
import { sourcesOf } from "../base/sources.ts";

/** Desired state for `checkHost()` and `checkPod()`. */
export interface Expectation {
  readonly host: Link;
  readonly ifname: string;
  readonly addresses: DualStack<Address>;
  readonly tableId: number;
}

/** Looks at the host's end: the link is up, there is an address, and each has its route. */
export async function checkHost(
  socket: RouteSocket,
  expected: Expectation,
): Promise<string[]> {
  const { host, addresses, tableId } = expected;
  const problems: string[] = [];
  if (!host.up) problems.push(`host link "${host.name}" is down`);
  if (sourcesOf(host) === undefined) {
    problems.push(
      `host link "${host.name}" lacks settings that keep the pod from forging sources: group ${POD_LINK_GROUP}, rp_filter and arp_filter 1`,
    );
  }
  if (valuesOf(addresses).length === 0) problems.push("it has no address");
  for (const address of valuesOf(addresses)) {
    const routes = await socket.listRoutes({
      table: tableId,
      family: address.family,
    });
    const route = routes.find(({ destination }) =>
      destination?.hostBits === 0 && destination.address.equals(address)
    );
    if (route === undefined) {
      problems.push(`host has no route to "${address}" in table ${tableId}`);
    } else if (route.index !== host.index) {
      problems.push(
        `host route to "${address}" does not lead to "${host.name}"`,
      );
    }
  }
  return problems;
}

/** Looks at the pod's end: it is the other end, up, with its addresses and a default route for each family. */
export async function checkPod(
  netnsPath: string,
  expected: Expectation,
): Promise<string[]> {
  const { host, ifname, addresses } = expected;
  const where = `interface "${ifname}" in "${netnsPath}"`;
  try {
    using netns = openPodNetns(netnsPath);
    using socket = RouteSocket.open({ netns });
    const link = await socket.getLink({ name: ifname });
    if (link === undefined) return [`${where} is missing`];
    if (link.index !== host.peerIndex || link.peerIndex !== host.index) {
      return [`${where} is not the peer of "${host.name}"`];
    }
    return [
      ...(link.up ? [] : [`${where} is down`]),
      ...await checkPodAddresses(socket, { link, addresses, where }),
    ];
  } catch (error) {
    return [messageOf(error)];
  }
}

async function checkPodAddresses(
  socket: RouteSocket,
  pod: { link: Link; addresses: DualStack<Address>; where: string },
): Promise<string[]> {
  const { link: { index }, addresses, where } = pod;
  const problems: string[] = [];
  const wanted = valuesOf(addresses);
  const present = await socket.listAddresses({
    index,
    keep: ({ prefix }) => wanted.some((one) => one.equals(prefix.address)),
  });
  for (const address of wanted) {
    const { family } = address;
    if (!present.some(({ prefix }) => prefix.address.equals(address))) {
      problems.push(`${where} does not have address "${address}"`);
    }
    const routes = await socket.listRoutes({ family, table: MAIN_TABLE });
    const hasDefault = routes.some((route) =>
      route.destination === undefined && route.index === index
    );
    if (!hasDefault) problems.push(`${where} has no ${family} default route`);
  }
  return problems;
}
