import { type Family, valuesOf } from "../../inet/mod.ts";
import { nft } from "../../netlink/mod.ts";
import { PROBE_SOURCE } from "../kernel/path_probe.ts";
import type { ServerFamily } from "./family.ts";
import type { ServerPlan } from "./plan.ts";
import { UNTRACKED_IN } from "./table.ts";
import {
  addParts,
  digitOf,
  dynamicSet,
  type TableParts,
} from "./table_parts.ts";

/** A node sends four, and ten more within a third of a second while the gateway is in doubt. */
const RATE = { perSecond: 20, burst: 40 };
/** How long a sender is remembered. */
const MEMORY_MS = 60_000;

/**
 * The plan with a way for the probes of nodes: datagrams of the tunnel, from
 * anyone, with a packet in them that goes back to their sender and nowhere else.
 *
 * No instruction compares two parts of a packet. So the sender's address goes
 * into a set, twice, and the pair of outer source and inner destination is
 * looked up there: it is found only if both are the same address.
 */
export function passPathProbes(plan: ServerPlan): ServerPlan {
  const parts = valuesOf(plan.families).map((family) => pass(plan, family));
  return addParts(plan, UNTRACKED_IN, parts);
}

/** Name of the set of nodes that have probed the gateway within the last minute. */
export function nodeSet(family: Family): string {
  return `nodes${digitOf(family)}`;
}

function pass({ ifname }: ServerPlan, family: ServerFamily): TableParts {
  const { address, fouPort } = family;
  const source = nft.saddrField(family.family);
  const set = (name: string, fields: number) =>
    dynamicSet(name, { family: family.family, fields }, MEMORY_MS);
  // Two sets: to look an element up that has a rate is to count with it.
  const rates = set(`node_rates${digitOf(family.family)}`, 1);
  const nodes = set(nodeSet(family.family), 2);
  const probe = [
    nft.iifname(ifname),
    nft.daddr(address),
    nft.udpDport(fouPort.port),
    nft.innerSaddr(PROBE_SOURCE[family.family]),
  ];
  return {
    sets: [rates, nodes],
    rules: [
      nft.rule([
        ...probe,
        nft.rateOver(RATE, [source], rates.name),
        nft.drop(),
      ]),
      nft.rule([
        ...probe,
        nft.addToSet([source, source], nodes.name),
        nft.inSet(
          [source, `inner ${nft.daddrField(family.family)}`],
          nodes.name,
        ),
        nft.notrack(),
      ]),
    ],
  };
}
