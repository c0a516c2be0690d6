import {
  type ChosenPools,
  REASON_OUT_OF_BLOCKS,
} from "../../../lib/api/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  DEFAULT_POOL,
  type NamespacedName,
  nameText,
  POOL_ANNOTATION,
} from "../../../lib/names/mod.ts";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolNotFoundError,
  PoolPausedError,
  QuarantinedError,
} from "../../../lib/ipam/mod.ts";
import { AddressError, type AddressFinding } from "../base/errors.ts";

export interface AddressContext {
  readonly pod: NamespacedName;
  readonly pool: string;
  /** Whose annotation names the pool. */
  readonly from: ChosenPools["from"];
  /** What there is to say of the error, where it is not a matter of pools. */
  readonly finding?: AddressFinding | undefined;
  /** The pools there are. */
  readonly poolNames: () => readonly string[];
  /** How many blocks of the pool this node holds. */
  readonly heldBlocks: () => number;
}

/**
 * Says which pod got no address, what was found, and what an admin can do.
 * The cause's own words are left out where these say the same.
 */
export function explain(error: unknown, context: AddressContext): AddressError {
  const { pod, pool } = context;
  const { text, event } = context.finding ??
    { text: findingOf(error, context) ?? messageOf(error) };
  const failed = `Cannot give pod "${
    nameText(pod)
  }" an address of pool "${pool}"`;
  return new AddressError(`${failed}: ${text}`, {
    cause: error,
    event: event && `${failed}: ${event}`,
  });
}

/** Whether a pool has no address left for this node, which only more addresses or fewer pods change. */
export function isExhaustion(error: unknown): boolean {
  return error instanceof OutOfBlocksError &&
    error.reason === REASON_OUT_OF_BLOCKS;
}

/** The annotation that names a pod's pools, or would. */
export function poolAnnotationText(
  { pod, from }: Pick<AddressContext, "pod" | "from">,
): string {
  const owner = from === "pod"
    ? `pod "${nameText(pod)}"`
    : `namespace "${pod.namespace}"`;
  return `annotation "${POOL_ANNOTATION}" of ${owner}`;
}

function findingOf(
  error: unknown,
  context: AddressContext,
): string | undefined {
  const { from, poolNames, heldBlocks } = context;
  const annotation = poolAnnotationText(context);
  const isDefault = from === "default";
  const remark = isDefault
    ? `; pool "${DEFAULT_POOL}" is used because that annotation is not set`
    : "";
  if (error instanceof PoolNotFoundError) {
    const names = poolNames();
    const known = names.length === 0 ? "none" : names.join(", ");
    return `the AddressPool does not exist; create it, or ${
      isDefault ? "set" : "correct"
    } ${annotation} (pools: ${known})${remark}`;
  }
  if (error instanceof PoolDeletingError) {
    return `the AddressPool is being deleted; choose another one by ${annotation}${remark}`;
  }
  if (error instanceof PoolPausedError) {
    return `the AddressPool is paused; choose another one by ${annotation}, or remove spec.paused of the pool${remark}`;
  }
  if (error instanceof OutOfBlocksError) {
    if (!isExhaustion(error)) {
      return `coil-controller refused a block for this node (${error.reason}); fix the cause, the kubelet retries`;
    }
    if (error.overlap !== undefined) {
      return `all free blocks of the pool overlap others: ${error.overlap}; ` +
        "remove the overlap, or append a subnet that no other pool has";
    }
    return `the pool has no free block (${error.reason}), and this node's blocks (${heldBlocks()}) have no free address; ` +
      "append a subnet to the AddressPool, or delete pods";
  }
  if (error instanceof BlockTimeoutError) {
    return `no block came within ${
      error.timeoutMs / 1000
    } s; is coil-controller running?`;
  }
  if (error instanceof QuarantinedError) {
    return "its interface has an address in no block of this node; delete the pod, its replacement gets another address";
  }
  return undefined;
}
