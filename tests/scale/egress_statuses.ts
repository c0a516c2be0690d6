// How often statuses of Egresses are written.
import type { Pattern } from "./patterns.ts";
import {
  type ClusterSize,
  gatewaysOf,
  LIFE_MS,
  servedEgressesOf,
} from "./size.ts";

/** The controller writes numbers an interval and up to a fifth of it after the last write, a tenth on average. */
const PACE = 1.1;
/** Clients of an Egress are counted so long after one of them has changed. */
const COUNT_S = 10;

/** Writes in a second: by gateways, and by the controller when the number of an Egress' clients has changed. */
export function egressStatusesS(
  size: ClusterSize,
  { egressStatus: { gatewayS, controllerS } }: Pick<
    Pattern,
    "egressStatus"
  >,
  { rush }: { readonly rush: number },
): number {
  const ends = size.pods / (LIFE_MS / 1000);
  const clients = size.clients / size.pods;
  const egresses = servedEgressesOf(size);
  // Of one Egress; as many start as end.
  const changeS = egresses / ((1 + rush) * ends * clients);
  return gatewaysOf(size) / gatewayS +
    egresses / controllerPeriodS(controllerS, changeS);
}

/** From one write of an Egress to the next: as soon as the pace allows it, unless no client has changed by then. */
function controllerPeriodS(intervalS: number, changeS: number): number {
  const paceS = PACE * intervalS;
  const leftS = Math.max(0, paceS - COUNT_S);
  return paceS + changeS * Math.exp(-leftS / changeS);
}
