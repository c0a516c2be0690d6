import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import type { HeldBlock } from "./held_block.ts";
import type { AttachmentKey } from "../../cni/mod.ts";

/**
 * State of an attachment's addresses:
 *
 * - `used`: given to the pod, or found on it, and covered by blocks of this node
 * - `releasing`: the pod is being torn down; no other pod can get the addresses yet
 * - `quarantined`: on a pod, but no block of this node covers them; never given to a pod
 *
 * An attachment that is none of these does not exist: its addresses are free (or cooling).
 */
export type AddressState = "used" | "releasing" | "quarantined";

/** One pod interface and the addresses it keeps from being given to others. Owned by the address table. */
export interface Holder extends AttachmentKey {
  readonly pool: string;
  /** The addresses of the pod. */
  addresses: DualStack<Address>;
  /** The addresses of the pod and all others that the kernel showed for it. */
  readonly held: Set<Address>;
  /** The blocks that cover some address of it. */
  readonly blocks: Set<HeldBlock>;
  /** Changes with each period of use, so that a late release of an earlier period is recognised. */
  generation: number;
  releasing: boolean;
  /** When the present state began; monotonic milliseconds. */
  since: number;
  /** When the attachment was last given out or seen in the kernel; monotonic milliseconds. */
  touchedAt: number;
  /** Since when the kernel has no interface for it; monotonic milliseconds. */
  missingSince?: number | undefined;
}

/** Whether blocks of this node cover every address of the attachment. */
export function isCovered(attachment: Holder): boolean {
  const blocks = [...attachment.blocks].filter((block) =>
    !block.holds.has("edited")
  );
  return [...attachment.held].every((address) =>
    blocks.some((block) => block.indexOf(address) !== undefined)
  );
}

/** Whether the attachment holds the address. */
export function hasAddress({ held }: Holder, address: Address): boolean {
  return [...held].some((each) => each.equals(address));
}

export function stateOf(attachment: Holder): AddressState {
  if (attachment.releasing) return "releasing";
  return isCovered(attachment) ? "used" : "quarantined";
}

/** Lets an attachment hold those of its addresses that are in the block. */
export function holdIn(block: HeldBlock, attachment: Holder): void {
  for (const address of attachment.held) {
    const index = block.indexOf(address);
    if (index !== undefined) holdAt(block, index, attachment);
  }
  complete(attachment, block);
}

/**
 * A pod has an address of each family of its block, of the same position. The kernel may show one only: when its
 * daemon was killed between the two, or another program removed one. What is of a block that overlaps another may be
 * another pod's.
 */
function complete(attachment: Holder, block: HeldBlock): void {
  const [known] = valuesOf(attachment.addresses);
  const index = known && block.indexOf(known);
  if (index === undefined || block.info.pool !== attachment.pool) return;
  if (block.holds.has("overlapping")) return;
  attachment.addresses = {
    ...block.addressesAt(index),
    ...attachment.addresses,
  };
}

/** Lets an attachment hold a position of the block. */
export function holdAt(
  block: HeldBlock,
  index: number,
  attachment: Holder,
): void {
  block.hold(index, attachment);
  attachment.blocks.add(block);
}
