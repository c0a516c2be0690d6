import type {
  ClientGateway,
  ClientPlan,
  FailurePolicy,
  GatewaySelection,
  SkippedDestination,
} from "../../../lib/egress/mod.ts";
import { FAMILIES, type Family } from "../../../lib/inet/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";

/** The reasons of conditions, as in Events and metrics. */
export const CONDITION_REASONS = [
  "EgressNotFound",
  "EgressInvalid",
  "EgressUnavailable",
  "EgressShadowed",
  "EgressFamilyMismatch",
  "EgressUnsupported",
] as const;

/** One of them. */
export type ConditionReason = typeof CONDITION_REASONS[number];

/** Something about a client that its owner should know, for as long as it is so. */
export interface ClientCondition {
  /** Identifies the condition; the message may say more. */
  readonly id: string;
  readonly reason: ConditionReason;
  readonly message: string;
}

/** The message for a condition that is over because the cause is gone; it may also be over otherwise. */
export interface ConditionEnd {
  /** The condition's. */
  readonly id: string;
  readonly reason: "EgressAvailable" | "EgressFamilyMatch";
  readonly message: string;
}

/** What is to be said about a client. Pure. */
export function conditionsOf(
  selection: GatewaySelection,
  plan: Pick<ClientPlan, "shadowed" | "skipped">,
): ClientCondition[] {
  return [
    ...missingObjects(selection),
    ...invalidDestinations(selection),
    ...unavailableGateways(selection, plan),
    ...shadowedDestinations(plan),
    ...foreignFamilies(selection, plan),
  ];
}

function missingObjects(selection: GatewaySelection): ClientCondition[] {
  return selection.missing.map(({ kind, ...ref }) => ({
    id: `missing ${kind} ${nameText(ref)}`,
    reason: "EgressNotFound",
    message: `${
      kind === "Egress"
        ? `Egress "${nameText(ref)}" no longer exists`
        : `Service "${nameText(ref)}" of the Egress does not exist`
    }; packets to its destinations ${fateAt(selection, ref)} ${
      kind === "Egress"
        ? "until it exists again or the pod's annotation does not name it"
        : "until coil-controller has created it"
    }`,
  }));
}

/** What becomes of packets while an Egress has no gateway. */
function fateAt({ gateways }: GatewaySelection, ref: NamespacedName): string {
  const gateway = gateways.find(({ name }) => name === nameText(ref));
  return fateOf(gateway?.failurePolicy);
}

function fateOf(policy: FailurePolicy | undefined): string {
  return policy === "Open"
    ? "use other routes (failurePolicy: Open)"
    : "are rejected";
}

function invalidDestinations({ invalid }: GatewaySelection): ClientCondition[] {
  return invalid.map(({ gateway, text }) => ({
    id: `invalid ${gateway} ${text}`,
    reason: "EgressInvalid",
    message:
      `Egress "${gateway}" has the destination "${text}", which is not a valid CIDR; ignored`,
  }));
}

function unavailableGateways(
  selection: GatewaySelection,
  plan: Pick<ClientPlan, "skipped">,
): ClientCondition[] {
  return existing(selection).flatMap((gateway) => {
    const families = familiesThrough(gateway, plan);
    const without = families.filter((f) => !gateway.available.includes(f));
    if (without.length === 0) return [];
    const isWhole = without.length === families.length;
    return [unavailable(gateway, isWhole ? undefined : namesOf(without))];
  });
}

/** `family` is the one that it is about; without, all there are. */
function unavailable(
  { name, failurePolicy }: ClientGateway,
  family: string | undefined,
): ClientCondition {
  const [where, which] = family === undefined
    ? ["", ""]
    : [` in ${family}`, `${family} `];
  return {
    id: unavailableId(name),
    reason: "EgressUnavailable",
    message:
      `Egress "${name}" has no ready gateway${where}; packets to its ${which}destinations ${
        fateOf(failurePolicy)
      } until one is ready`,
  };
}

/** The gateways of Egresses that exist and have a Service. */
function existing({ gateways, missing }: GatewaySelection): ClientGateway[] {
  const gone = new Set(missing.map((ref) => nameText(ref)));
  return gateways.filter(({ name }) => !gone.has(name));
}

/** Those of its destinations, but for what pod or Service lacks, which has a condition of its own. */
function familiesThrough(
  { name, destinations }: ClientGateway,
  { skipped }: Pick<ClientPlan, "skipped">,
): Family[] {
  const own = skipped.filter(({ gateway }) => gateway === name);
  return FAMILIES.filter((family) =>
    destinations.some((each) => each.family === family) &&
    !own.some(({ destination }) => destination.family === family)
  );
}

/** What may be said of conditions that are not there. Pure. */
export function endsOf(
  selection: GatewaySelection,
  plan: Pick<ClientPlan, "skipped">,
): ConditionEnd[] {
  return existing(selection).flatMap((gateway): ConditionEnd[] => {
    const { name, available } = gateway;
    const families = familiesThrough(gateway, plan);
    const isAvailable = families.length > 0 &&
      families.every((family) => available.includes(family));
    const isRefused = plan.skipped.some((each) =>
      each.gateway === name && each.refused
    );
    return [
      ...(isAvailable
        ? [{
          id: unavailableId(name),
          reason: "EgressAvailable" as const,
          message: `Egress "${name}" has a ready gateway`,
        }]
        : []),
      ...(isRefused ? [] : [{
        id: refusedId(name),
        reason: "EgressFamilyMatch" as const,
        message:
          `Packets to Egress "${name}" are no longer rejected for their address family`,
      }]),
    ];
  });
}

function unavailableId(gateway: string): string {
  return `unavailable ${gateway}`;
}

function refusedId(gateway: string): string {
  return `refused ${gateway}`;
}

function shadowedDestinations(
  { shadowed }: Pick<ClientPlan, "shadowed">,
): ClientCondition[] {
  return shadowed.map(({ gateway, destination, by }) => ({
    id: `shadowed ${gateway} ${destination} ${by}`,
    reason: "EgressShadowed",
    message:
      `Destination "${destination}" of Egress "${gateway}" goes through Egress "${by}", which has the same destination and sorts first by namespace and name`,
  }));
}

/**
 * That the pod lacks one of two families is normal with dual stack. To have
 * none in common is a mistake, and refusals are always reported.
 */
function foreignFamilies(
  { gateways }: GatewaySelection,
  { skipped }: Pick<ClientPlan, "skipped">,
): ClientCondition[] {
  return gateways.flatMap(({ name, destinations }) => {
    const own = skipped.filter(({ gateway }) => gateway === name);
    const refused = own.filter((each) => each.refused);
    if (refused.length > 0) return [refusedFamily(name, refused)];
    const total = new Set(destinations.map(String)).size;
    return total > 0 && own.length === total ? [noFamily(name, own)] : [];
  });
}

function refusedFamily(
  name: string,
  refused: readonly SkippedDestination[],
): ClientCondition {
  const family = familiesOf(refused);
  return {
    id: refusedId(name),
    reason: FAMILY_MISMATCH,
    message:
      `Egress "${name}" has ${family} destinations, but its Service has no ${family} address; packets to them are rejected. Give the Service and the gateways ${family} addresses, remove the destinations, or set failurePolicy to Open`,
  };
}

function noFamily(
  name: string,
  skipped: readonly SkippedDestination[],
): ClientCondition {
  // mutate: words for people.
  const lacking = skipped.some((each) => each.lacking === "pod")
    ? "the pod has no address"
    : "its Service has no address";
  return {
    id: `family ${name}`,
    reason: FAMILY_MISMATCH,
    message:
      `Egress "${name}" has no effect for the pod: its destinations are ${
        familiesOf(skipped)
      }, in which ${lacking}`,
  };
}

const FAMILY_MISMATCH = "EgressFamilyMismatch";

function familiesOf(skipped: readonly SkippedDestination[]): string {
  return namesOf(skipped.map(({ destination }) => destination.family));
}

function namesOf(families: readonly Family[]): string {
  return [...new Set(families)].map((family) => FAMILY_NAMES[family])
    .join(" and ");
}

const FAMILY_NAMES = { ipv4: "IPv4", ipv6: "IPv6" } as const;
