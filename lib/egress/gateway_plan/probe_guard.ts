import { type Family, valuesOf } from "../../inet/mod.ts";
import { nft } from "../../netlink/mod.ts";
import type { ServerPlan } from "./plan.ts";
import { GUARD } from "./table.ts";
import {
  addParts,
  digitOf,
  dynamicSet,
  type TableParts,
} from "./table_parts.ts";

/** A kubelet opens about one connection in a second. Nodes may have the address of their pods, so there is room for more. */
const RATE = { perSecond: 20, burst: 40 };
/** How long an address that opened a connection is remembered; then its rate is measured again. */
const MEMORY_MS = 60_000;

/**
 * The plan with a limit for each address that connects to the port of the
 * probes. All peers of a port share one queue of connections, so without it a
 * pod that opens them faster than they are accepted would delay the kubelet's.
 */
export function guardProbes(plan: ServerPlan): ServerPlan {
  const { families, probePort } = plan;
  if (probePort === undefined) return plan;
  const parts = valuesOf(families)
    .map(({ family }) => refuseFlood(family, probePort));
  return addParts(plan, GUARD, parts);
}

function refuseFlood(family: Family, port: number): TableParts {
  const key = { family, fields: 1 };
  const probers = dynamicSet(`probers${digitOf(family)}`, key, MEMORY_MS);
  const rule = nft.rule([
    nft.nfproto(family),
    nft.tcpDport(port),
    nft.ctState("new"),
    nft.rateOver(RATE, [nft.saddrField(family)], probers.name),
    nft.drop(),
  ]);
  return { sets: [probers], rules: [rule] };
}
