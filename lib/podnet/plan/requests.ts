import type { Netns } from "../../linux/mod.ts";
import {
  addressAdd,
  linkAddVeth,
  linkGet,
  linkSet,
  neighbourReplace,
  type Request,
  routeAdd,
} from "../../netlink/mod.ts";
import type { LinkStep, RouteStep, Step, VethSpec } from "./plan.ts";

/** The indexes of a pair's ends, each in its own namespace. */
export interface LinkIndexPair {
  readonly index: number;
  readonly peerIndex: number;
}

/** The request that makes the veth pair with its peer in the pod's network namespace. */
export function vethRequest(
  veth: VethSpec & LinkIndexPair,
  netns: Netns,
): Request {
  const { index, peerIndex, queues } = veth;
  const both = veth.mtu === undefined ? { queues } : { queues, mtu: veth.mtu };
  return linkAddVeth({
    name: veth.name,
    index,
    group: veth.group,
    mac: veth.mac,
    ...both,
    peer: {
      name: veth.peerName,
      index: peerIndex,
      netns,
      mac: veth.peerMac,
      ...both,
    },
  });
}

/** The requests that carry out steps of a plan on the link with this index. The kernel answers only those that it refuses. */
export function stepRequests(steps: readonly Step[], index: number): Request[] {
  return steps.map((step) => ({ ...stepRequest(step, index), silent: true }));
}

function stepRequest(step: Step, index: number): Request {
  switch (step.kind) {
    case "link":
      return linkRequest(step, index);
    case "address":
      return addressAdd({
        index,
        prefix: { address: step.address, length: step.length },
        scope: step.scope,
        ...(step.address.family === "ipv6" ? { noDad: true } : {}),
      });
    case "route":
      return routeAdd(routeSpec(step, index));
    case "neighbour":
      return neighbourReplace({
        index,
        address: step.address,
        mac: step.mac,
        state: "stale",
      });
    case "settle":
      // rtnl_getlink() of net/core/rtnetlink.c settles the link, since Linux 6.8.
      return linkGet({ index });
  }
}

function linkRequest(step: LinkStep, index: number): Request {
  const { up, alias, ipv4Conf, addressGeneration: ipv6AddrGenMode } = step;
  return linkSet({ index }, { up, alias, ipv4Conf, ipv6AddrGenMode });
}

/** A route step in the words of `lib/netlink`. */
export function routeSpec(
  step: RouteStep,
  index: number,
): Parameters<typeof routeAdd>[0] {
  const family = (step.destination ?? step.gateway)?.family;
  if (family === undefined) {
    throw new TypeError(
      "Cannot add a route with neither destination nor gateway",
    );
  }
  const { kind: _, ...route } = step;
  return { ...route, family, index };
}
