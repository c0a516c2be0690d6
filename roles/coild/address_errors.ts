import { POOL_ANNOTATION } from "../../lib/names/mod.ts";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolNotFoundError,
} from "../../lib/ipam/mod.ts";
import type { PodName } from "../../lib/podnet/mod.ts";
import { AddressError } from "./errors.ts";

/** What an explanation can draw on. */
export interface AddressContext {
  readonly pod: PodName;
  readonly pool: string;
  /** The pools there are. */
  readonly poolNames: () => readonly string[];
  /** How many blocks of the pool this node holds. */
  readonly heldBlocks: () => number;
}

/** Says which pod got no address, what was found, and what an admin can do. */
export function explain(error: unknown, context: AddressContext): AddressError {
  const { pod, pool } = context;
  const reason = error instanceof Error ? error.message : String(error);
  const advice = adviceFor(error, context);
  return new AddressError(
    `Cannot give pod "${pod.namespace}/${pod.name}" an address of pool "${pool}": ` +
      reason + (advice === undefined ? "" : `; ${advice}`),
    { cause: error },
  );
}

function adviceFor(
  error: unknown,
  { pod, poolNames, heldBlocks }: AddressContext,
): string | undefined {
  if (error instanceof PoolNotFoundError) {
    const names = poolNames();
    const known = names.length === 0 ? "there is none" : names.join(", ");
    return `create it, or correct annotation "${POOL_ANNOTATION}" of namespace "${pod.namespace}" (pools: ${known})`;
  }
  if (error instanceof PoolDeletingError) {
    return `choose another pool by annotation "${POOL_ANNOTATION}" of namespace "${pod.namespace}"`;
  }
  if (error instanceof OutOfBlocksError) {
    return `this node holds ${heldBlocks()} of its blocks, all in use; add a subnet to the AddressPool, or delete pods`;
  }
  if (error instanceof BlockTimeoutError) {
    return "is coil-controller running?";
  }
  return undefined;
}
