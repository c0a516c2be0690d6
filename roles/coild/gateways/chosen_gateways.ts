import {
  type ClientGateway,
  type GatewayGroup,
  gatewayMark,
  type GatewayProber,
} from "../../../lib/egress/mod.ts";
import { type Address, distinct, FAMILIES } from "../../../lib/inet/mod.ts";

/** What probing has found out; addresses as text. */
export type GatewayHealthView = Pick<
  GatewayProber,
  "avoided" | "lost" | "recall"
>;

/** The gateways that clients choose from, by Egress and family. */
export function chosenGroups(
  gateways: readonly ClientGateway[],
): GatewayGroup[] {
  const byName = Map.groupBy(gateways, ({ name }) => name);
  return [...byName].flatMap(([name, same]) => {
    const all = chosenFrom(same);
    const uids = uidsOf(same);
    return FAMILIES.map((family) => ({
      name,
      gateways: all.filter((each) => each.family === family),
      uids,
    }));
  }).filter((group) => group.gateways.length > 0);
}

/** The gateways that do not answer. */
export function lostOf(
  gateways: readonly ClientGateway[],
  { lost }: Pick<GatewayHealthView, "lost">,
): Address[] {
  return chosenFrom(gateways).filter((each) => lost.has(each.toString()));
}

/** The gateways whose connections are to be ended when they are lost. */
export function endingOf(gateways: readonly ClientGateway[]): Address[] {
  return chosenFrom(gateways.filter(({ keepsLost }) => keepsLost !== true));
}

/** The gateways that new connections may use, as far as the API server says. */
export function readyOf(gateways: readonly ClientGateway[]): Address[] {
  return distinct(gateways.flatMap(({ direct = [] }) => direct));
}

/**
 * The gateways that their Egress has no more, and whose connections are to be
 * ended; so are those of one whose address another pod has now. In a family in
 * which the Egress has no gateway left, only those whose pods are known not to be
 * among its gateways: the others may be in a gap of the API server's, which has
 * EndpointSlices of their own for each family.
 */
export function goneOf(
  gateways: readonly ClientGateway[],
  known: ReadonlyMap<string, ClientGateway>,
): Address[] {
  const left = new Set(chosenFrom(gateways).map(String));
  const uids = uidsOf(gateways);
  return distinct(gateways.flatMap((gateway) => {
    const before = known.get(gateway.name);
    if (gateway.keepsLost === true || before === undefined) return [];
    const families = new Set(chosenOf(gateway).map(({ family }) => family));
    const pods = new Set(gateway.uids?.values());
    return chosenOf(before).filter((each) => {
      const name = each.toString();
      const uid = before.uids?.get(name);
      if (left.has(name)) {
        return uid !== undefined && (uids.get(name) ?? uid) !== uid;
      }
      const isKnown = uid !== undefined && pods.size > 0 && !pods.has(uid);
      return families.has(each.family) || isKnown;
    });
  }));
}

function uidsOf(
  gateways: readonly ClientGateway[],
): ReadonlyMap<string, string> {
  return new Map(gateways.flatMap(({ uids = new Map() }) => [...uids]));
}

/** The gateways whose marks are among these. */
export function markedOf(
  gateways: readonly ClientGateway[],
  marks: ReadonlySet<number>,
): Address[] {
  if (marks.size === 0) return [];
  return chosenFrom(gateways).filter((each) => marks.has(gatewayMark(each)));
}

/** The gateways that got new connections, and are not to get any now. */
export function leftOf(
  gateways: readonly ClientGateway[],
  known: ReadonlyMap<string, ClientGateway>,
): Address[] {
  return gateways.flatMap(({ name, direct }) =>
    (known.get(name)?.direct ?? []).filter((each) =>
      direct?.every((other) => !other.equals(each))
    )
  );
}

/** The gateways that connections of clients that choose may go through: any that these once chose. */
export function chosenFrom(gateways: readonly ClientGateway[]): Address[] {
  return distinct(gateways.flatMap(chosenOf));
}

function chosenOf({ direct, senders }: ClientGateway): readonly Address[] {
  return direct === undefined ? [] : distinct([...direct, ...senders]);
}
