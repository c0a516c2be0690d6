import { valuesOf } from "../../inet/mod.ts";
import { nft, type NftRule, type NftSet } from "../../netlink/mod.ts";
import type { ServerFamily } from "./family.ts";
import type { ServerPlan } from "./plan.ts";
import { GUARD } from "./table.ts";

/** A kubelet opens about one connection in a second. Nodes may have the address of their pods, so there is room for more. */
const RATE = { perSecond: 20, burst: 40 };
/** How long an address that opened a connection is remembered; then its rate is measured again. */
const MEMORY_MS = 60_000;
/** Where the set is full, further addresses are not limited. */
const MAX_ELEMENTS = 65_535;

/**
 * The plan with a limit for each address that connects to the port of the
 * probes. All peers of a port share one queue of connections, so without it a
 * pod that opens them faster than they are accepted would delay the kubelet's.
 */
export function guardProbes(plan: ServerPlan): ServerPlan {
  const { table, probePort } = plan;
  if (probePort === undefined) return plan;
  const families = valuesOf(plan.families);
  const rules = families.map((family) => refuseFlood(family, probePort));
  return {
    ...plan,
    table: {
      ...table,
      sets: [...table.sets, ...families.map(proberSet)],
      chains: table.chains.map((chain) =>
        chain.name === GUARD
          ? { ...chain, rules: [...chain.rules, ...rules] }
          : chain
      ),
    },
  };
}

function setName({ family }: ServerFamily): string {
  return family === "ipv4" ? "probers4" : "probers6";
}

function proberSet(family: ServerFamily): NftSet {
  return {
    name: setName(family),
    key: [`${family.family}_addr`],
    elements: [],
    dynamic: { size: MAX_ELEMENTS, timeoutMs: MEMORY_MS },
  };
}

function refuseFlood(family: ServerFamily, port: number): NftRule {
  const field = family.family === "ipv4" ? "ip saddr" : "ip6 saddr";
  return nft.rule([
    nft.nfproto(family.family),
    nft.tcpDport(port),
    nft.ctState("new"),
    nft.rateOver(RATE, [field], setName(family)),
    nft.drop(),
  ]);
}
