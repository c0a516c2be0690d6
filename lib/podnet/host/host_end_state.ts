import type { Address } from "../../inet/mod.ts";
import { type HostEndInput, hostEndSteps, type Step } from "../plan/plan.ts";
import type { PodLink } from "../state/survey.ts";

/** Part that a pod's host interface can lack. */
export type EndLack = "link" | "address" | "route";

/** The host's end of a pod as it is. */
export interface FoundEnd {
  readonly pod: Pick<PodLink, "addresses">;
  /** The addresses of the host veth. */
  readonly addresses: readonly Address[];
}

/**
 * Compares the host's end of a pod with what ADD makes. Pure. Neighbour entries
 * are left out: they only save the first packets a round trip.
 *
 * Of addresses it asks for one of each family that a gateway may be: a pod that
 * upstream Coil connected, or this one in the other mode of gateways, has
 * another one than ADD would give it now.
 */
export function lacksOfEnd(
  found: FoundEnd & { readonly pod: Pick<PodLink, "up"> },
  input: HostEndInput,
): EndLack[] {
  const missing = missingSteps(found, input);
  const has = (kind: Step["kind"]) => missing.some((s) => s.kind === kind);
  return [
    ...(found.pod.up ? [] : ["link" as const]),
    ...(has("address") ? ["address" as const] : []),
    ...(has("route") ? ["route" as const] : []),
  ];
}

/** The addresses and pod routes to add. Pure. */
export function missingSteps(
  { pod, addresses }: FoundEnd,
  input: HostEndInput,
): Step[] {
  return hostEndSteps(input).filter((step) => {
    if (step.kind === "address") {
      return !addresses.some((present) => isLike(present, step.address));
    }
    if (step.kind !== "route" || step.table !== input.tableId) return false;
    const address = step.destination?.address;
    return address !== undefined &&
      pod.addresses[address.family]?.equals(address) !== true;
  });
}

/** Steps that help the first packets; their failure does no harm. Pure. */
export function helpfulSteps(input: HostEndInput): Step[] {
  return [
    ...hostEndSteps(input).filter((step) =>
      step.kind === "neighbour" ||
      step.kind === "route" && step.table !== input.tableId
    ),
    { kind: "settle" },
  ];
}

/** An IPv6 gateway is link-local; an IPv4 one may be the node's address. */
function isLike(present: Address, wanted: Address): boolean {
  return present.family === wanted.family &&
    (present.family === "ipv4" || present.isLinkLocal === wanted.isLinkLocal);
}
