import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import type { Settings } from "../blocks/context.ts";
import type { AddressTable } from "../table/address_table.ts";
import {
  type AddressState,
  hasAddress,
  type Holder,
  stateOf,
} from "../table/holder.ts";
import type { KernelPod } from "../base/ports.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/** One attachment with its addresses, as others see it. */
export interface AllocationRecord extends AttachmentKey {
  readonly pool: string;
  readonly addresses: DualStack<Address>;
  readonly state: AddressState;
  /** Name of the block that covers the addresses, if one does. */
  readonly block?: string;
  readonly generation: number;
  /** How long the state has lasted. After a restart of the daemon it starts again. */
  readonly ageMs: number;
}

/** An address that more than one pod has. */
export interface DuplicateAddress {
  readonly address: Address;
  readonly holders: readonly AllocationRecord[];
}

/** Findings and changes of a comparison of the table with the kernel. */
export interface PodReport {
  /** Pods of the kernel that were not known and are now. */
  readonly registered: readonly AllocationRecord[];
  /** Attachments that the kernel has lost for good: their addresses were freed. */
  readonly freed: readonly AllocationRecord[];
  /** Attachments without an interface in the kernel that are not freed yet. */
  readonly missing: readonly AllocationRecord[];
  /** Releases that have lasted longer than the grace period. */
  readonly stuckReleases: readonly AllocationRecord[];
  /** Pods with addresses that no block of this node covers. */
  readonly quarantined: readonly AllocationRecord[];
  readonly duplicates: readonly DuplicateAddress[];
  /** Interfaces without addresses: left half-made by an ADD. */
  readonly withoutAddress: readonly AttachmentKey[];
}

/** How {@linkcode reconcilePods} decides. */
export interface ReconcileOptions
  extends Pick<Settings, "graceMs" | "confirmMs" | "isBusy"> {
  readonly now: number;
  /** Whether a key was released so lately that the list of pods may be older. */
  readonly isFresh: (key: string) => boolean;
}

/** Makes the public view of an attachment. */
export function recordOf(
  attachment: Holder,
  now: number,
): AllocationRecord {
  const { pool, containerId, ifname, addresses, generation } = attachment;
  const [block] = attachment.blocks;
  return {
    pool,
    containerId,
    ifname,
    addresses,
    state: stateOf(attachment),
    ...(block === undefined ? {} : { block: block.info.name }),
    generation,
    ageMs: now - attachment.since,
  };
}

/**
 * Compares the table with the pods of the kernel: registers what is not known, and frees what the kernel has been
 * without in two comparisons and for the whole grace period. Anything less certain is only reported. What an ADD or DEL
 * works on is left to it, however long that takes, and counts as seen: the list of pods may be older than its end.
 */
export function reconcilePods(
  table: AddressTable,
  pods: readonly KernelPod[],
  options: ReconcileOptions,
): PodReport {
  const { now } = options;
  const registered = registerPods(table, pods, options);
  const present = new Set(pods.map(keyText));
  const freed: AllocationRecord[] = [];
  const missing: AllocationRecord[] = [];
  for (const attachment of [...table.attachments.values()]) {
    const key = keyText(attachment);
    const isBusy = options.isBusy(key);
    if (isBusy || present.has(key)) attachment.missingSince = undefined;
    if (present.has(key)) continue;
    const record = recordOf(attachment, now);
    if (isLost(attachment, options)) {
      table.remove(attachment, now);
      freed.push(record);
      continue;
    }
    if (!isBusy) attachment.missingSince ??= now;
    missing.push(record);
  }
  return {
    registered,
    freed,
    missing,
    ...inspect(table, options),
    withoutAddress: pods
      .filter((pod) => isWithoutAddress(table, pod, options))
      .map(({ containerId, ifname }) => ({ containerId, ifname })),
  };
}

function registerPods(
  table: AddressTable,
  pods: readonly KernelPod[],
  { now, isFresh }: ReconcileOptions,
): AllocationRecord[] {
  const registered: AllocationRecord[] = [];
  for (const pod of pods) {
    if (valuesOf(pod.addresses).length === 0) continue;
    const known = table.find(pod);
    const isKnown = known !== undefined &&
      valuesOf(pod.addresses).every((address) => hasAddress(known, address));
    if (isKnown) continue;
    // Released since the list was made, perhaps: the next comparison will show.
    if (isFresh(keyText(pod))) continue;
    const attachment = table.register(pod, now);
    if (known === undefined) registered.push(recordOf(attachment, now));
  }
  return registered;
}

/**
 * What an ADD or DEL is at work on has its addresses in the table, until the DEL
 * ends: links were listed before routes, perhaps before it. A husk needs none.
 */
function isWithoutAddress(
  table: AddressTable,
  pod: KernelPod,
  { isBusy, isFresh }: ReconcileOptions,
): boolean {
  const key = keyText(pod);
  return !pod.husk && valuesOf(pod.addresses).length === 0 &&
    table.find(pod) === undefined && !isBusy(key) && !isFresh(key);
}

function isLost(
  { missingSince, touchedAt, since }: Holder,
  { now, graceMs, confirmMs }: ReconcileOptions,
): boolean {
  if (missingSince === undefined || now - missingSince < confirmMs) {
    return false;
  }
  return now - Math.max(touchedAt, since) >= graceMs;
}

/** Lists what is wrong with the attachments as they are. */
export function inspect(
  table: AddressTable,
  { now, graceMs }: Pick<ReconcileOptions, "now" | "graceMs">,
): Pick<PodReport, "stuckReleases" | "quarantined" | "duplicates"> {
  const records = [...table.attachments.values()]
    .map((attachment) => recordOf(attachment, now));
  return {
    stuckReleases: records.filter(({ state, ageMs }) =>
      state === "releasing" && ageMs >= graceMs
    ),
    quarantined: records.filter(({ state }) => state === "quarantined"),
    duplicates: table.duplicates().map(({ address, holders }) => ({
      address,
      holders: holders.map((holder) => recordOf(holder, now)),
    })),
  };
}
