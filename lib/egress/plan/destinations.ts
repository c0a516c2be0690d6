import {
  type Address,
  distinct,
  FAMILIES,
  type Prefix,
} from "../../inet/mod.ts";
import type {
  ClientGateway,
  ClientRequest,
  ShadowedDestination,
  SkippedDestination,
} from "./request.ts";

/** A destination and the Egress that got it. */
export interface Owned {
  readonly gateway: ClientGateway;
  readonly destination: Prefix;
  /** Absent while the Egress has no Service, and for good where that lacks the family. */
  readonly remote: Address | undefined;
}

/** The destinations, each with its Egress. */
export interface Assignment {
  /** Those that something is done about; where two Egresses refuse one, it is there twice. */
  readonly owned: readonly Owned[];
  readonly shadowed: readonly ShadowedDestination[];
  readonly skipped: readonly SkippedDestination[];
}

/** A destination of a family that the pod or the Service lacks. */
interface Foreign extends Omit<Owned, "remote"> {
  readonly lacking: "pod" | "service";
}

/**
 * Decides which Egress has which destination: the first by namespace and name
 * that can carry it, else the refusal of those that cannot. Pure.
 */
export function assignDestinations(request: ClientRequest): Assignment {
  const owners = new Map<string, Owned>();
  const shadowed: ShadowedDestination[] = [];
  const foreign: Foreign[] = [];
  for (const gateway of request.gateways.toSorted(compareGateways)) {
    for (const destination of distinct(gateway.destinations)) {
      const lacking = lackingFamily(request, gateway, destination);
      const owner = owners.get(destination.toString());
      if (lacking !== undefined) {
        foreign.push({ gateway, destination, lacking });
      } else if (owner !== undefined) {
        const by = owner.gateway.name;
        shadowed.push({ gateway: gateway.name, destination, by });
      } else {
        const remote = gateway.service[destination.family];
        owners.set(destination.toString(), { gateway, destination, remote });
      }
    }
  }
  const refused = refusedFor(foreign, owners);
  const skipped = foreign.map((each): SkippedDestination => ({
    gateway: each.gateway.name,
    destination: each.destination,
    lacking: each.lacking,
    refused: refused.includes(each),
  }));
  const kept = refused.map((each) => ({ ...each, remote: undefined }));
  return { owned: [...owners.values(), ...kept], shadowed, skipped };
}

/**
 * What an Egress that fails closed cannot carry, and no other one has: it is
 * refused. A family that the pod lacks needs no refusal, since it has no route at all.
 */
function refusedFor(
  foreign: readonly Foreign[],
  owners: ReadonlyMap<string, Owned>,
): Foreign[] {
  return foreign.filter(({ gateway, destination, lacking }) =>
    lacking === "service" && gateway.failurePolicy === "Closed" &&
    !owners.has(destination.toString())
  );
}

/**
 * Which of the two has no address of the destination's family. A Service that is missing
 * altogether lacks none: its Egress is not available, which is another matter.
 */
function lackingFamily(
  { addresses }: ClientRequest,
  { service }: ClientGateway,
  { family }: Prefix,
): "pod" | "service" | undefined {
  if (addresses[family] === undefined) return "pod";
  const hasService = FAMILIES.some((each) => service[each] !== undefined);
  return hasService && service[family] === undefined ? "service" : undefined;
}

/** By namespace, then by name, as bytes: the same on every node. */
function compareGateways(a: ClientGateway, b: ClientGateway): number {
  const [left, right] = [a.name.split("/"), b.name.split("/")];
  for (const [i, part] of left.entries()) {
    const other = right[i] ?? "";
    // mutate: they are not the same.
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}
