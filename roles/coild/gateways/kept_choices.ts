import type { ClientGateway } from "../../../lib/egress/mod.ts";
import { type Address, distinct, FAMILIES } from "../../../lib/inet/mod.ts";

/**
 * Gateways with what is still good of those that a client chose before. Where
 * they are left to the Service now, connections through these stay, new ones
 * are the Service's; in a family of which the API server shows none for a
 * moment, they are chosen as before.
 */
export function keepChoices(
  gateways: readonly ClientGateway[],
  known: ReadonlyMap<string, ClientGateway>,
): ClientGateway[] {
  return gateways.map((gateway) => {
    const before = known.get(gateway.name);
    if (before?.direct === undefined) return gateway;
    const { direct } = gateway;
    if (direct === undefined) return { ...gateway, direct: [] };
    return fillGap({ ...gateway, direct }, before);
  });
}

/**
 * Each family has EndpointSlices of its own, and they may be away alone. A pod
 * has its addresses for as long as it lives, so a gateway that the other family
 * shows is there, and as ready. One whose pod is not known, as after a start, is
 * used until the EndpointSlices are back: it may have gone in the meantime.
 */
function fillGap(
  gateway: ClientGateway & { readonly direct: readonly Address[] },
  before: ClientGateway,
): ClientGateway {
  const { available, direct, senders, service } = gateway;
  const away = FAMILIES.filter((family) =>
    service[family] !== undefined &&
    senders.every((each) => each.family !== family)
  );
  if (senders.length === 0 || away.length === 0) return gateway;
  const uids = new Map(gateway.uids);
  /** Whether its pod is at one of these addresses, or not known. */
  const isAt = (each: Address, shown: readonly Address[]) => {
    const pod = before.uids?.get(each.toString());
    return pod === undefined ||
      shown.some((other) => uids.get(other.toString()) === pod);
  };
  // In this order a plan takes the same ones of too many.
  const kept = distinct([...before.senders, ...before.direct ?? []]).filter(
    (each) => away.includes(each.family) && isAt(each, senders),
  );
  const open = kept.filter((each) => isAt(each, direct));
  const names = new Set(kept.map(String));
  return {
    ...gateway,
    senders: [...senders, ...kept],
    direct: [...direct, ...open],
    near: names.intersection(before.near ?? new Set()).union(
      gateway.near ?? new Set(),
    ),
    uids: new Map([
      ...uids,
      ...[...before.uids ?? []].filter(([name]) => names.has(name)),
    ]),
    available: FAMILIES.filter((family) =>
      available.includes(family) || open.some((each) => each.family === family)
    ),
  };
}
