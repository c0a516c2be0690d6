import type {
  ClientGateway,
  GatewaySelection,
} from "../../../lib/egress/mod.ts";
import type { Prefix } from "../../../lib/inet/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";

/** Gateways, and the Egresses of which nothing is known. */
export interface FilledIn {
  readonly gateways: readonly ClientGateway[];
  readonly unknown: readonly NamespacedName[];
}

/**
 * Fills in what was last known of objects that are gone. A pod whose
 * annotations name an Egress that was deleted goes on refusing what went
 * through it: it was not configured to go another way.
 */
export function fillIn(
  { gateways, missing }: GatewaySelection,
  known: ReadonlyMap<string, ClientGateway> = new Map(),
): FilledIn {
  const filled = [...gateways];
  const unknown: NamespacedName[] = [];
  for (const { kind, ...ref } of missing) {
    const before = known.get(nameText(ref));
    if (kind === "Service") {
      const i = filled.findIndex(({ name }) => name === nameText(ref));
      const gateway = filled[i];
      // The families that the Service had stay those that are refused.
      if (gateway === undefined || before === undefined) continue;
      filled[i] = { ...gateway, service: before.service };
    } else if (before === undefined) {
      unknown.push(ref);
    } else {
      filled.push({ ...before, available: [], senders: [] });
    }
  }
  return { gateways: filled, unknown };
}

/**
 * Gateways for Egresses that were deleted while no coild ran: of what they
 * were there is left what the pod refuses, as far as no other Egress has it.
 */
export function unknownGateways(
  unknown: readonly NamespacedName[],
  { refused, others }: {
    readonly refused: readonly Prefix[];
    readonly others: readonly ClientGateway[];
  },
): ClientGateway[] {
  const owned = new Set(
    others.flatMap(({ destinations }) => destinations.map(String)),
  );
  const left = refused.filter((prefix) => !owned.has(prefix.toString()));
  return unknown.map((ref, i) => ({
    name: nameText(ref),
    service: {},
    // Which one had what is not known, and makes no difference.
    destinations: i === 0 ? left : [],
    sourcePortAuto: false,
    senders: [],
    available: [],
    failurePolicy: "Closed",
  }));
}
