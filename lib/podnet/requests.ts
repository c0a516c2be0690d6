import type { Netns } from "../linux/mod.ts";
import {
  addressAdd,
  linkAddVeth,
  linkSet,
  type Request,
  routeAdd,
} from "../netlink/mod.ts";
import type { RouteStep, Step, VethSpec } from "./plan.ts";

/** The request that makes the veth pair with its peer in the pod's network namespace. */
export function vethRequest(veth: VethSpec, netns: Netns): Request {
  const mtu = veth.mtu === undefined ? {} : { mtu: veth.mtu };
  return linkAddVeth({
    name: veth.name,
    mac: veth.mac,
    ...mtu,
    peer: { name: veth.peerName, netns, mac: veth.peerMac, ...mtu },
  });
}

/** The request that carries out one step of a plan on the link with this index. */
export function stepRequest(step: Step, index: number): Request {
  switch (step.kind) {
    case "link":
      return linkSet({ index }, {
        ...(step.up === undefined ? {} : { up: step.up }),
        ...(step.alias === undefined ? {} : { alias: step.alias }),
        ...(step.addressGeneration === undefined
          ? {}
          : { ipv6AddrGenMode: step.addressGeneration }),
      });
    case "address":
      return addressAdd({
        index,
        prefix: { address: step.address, length: step.length },
        scope: step.scope,
        ...(step.address.family === "ipv6" ? { noDad: true } : {}),
      });
    case "route":
      return routeAdd(routeSpec(step, index));
  }
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
  const { destination, gateway, scope, table, source } = step;
  return {
    family,
    index,
    protocol: step.protocol,
    ...(destination === undefined ? {} : { destination }),
    ...(gateway === undefined ? {} : { gateway }),
    ...(scope === undefined ? {} : { scope }),
    ...(table === undefined ? {} : { table }),
    ...(source === undefined ? {} : { source }),
  };
}
