import { OutOfBlocksError, PoolNotFoundError } from "../../../lib/ipam/mod.ts";
import { AddressError } from "../base/errors.ts";

/**
 * Allocates from the first pool that has an address.
 *
 * Only a pool that certainly gives none is passed over: where no answer came
 * in time, the next attempt may still get its address.
 *
 * @throws {AddressError} what each of the pools said
 */
export async function allocateFromFirst<T>(
  pools: readonly string[],
  allocate: (pool: string) => Promise<T>,
): Promise<T> {
  const refusals: AddressError[] = [];
  for (const pool of pools) {
    try {
      return await allocate(pool);
    } catch (error) {
      if (!(error instanceof AddressError) || !isRefusal(error.cause)) {
        throw error;
      }
      refusals.push(error);
    }
  }
  throw new AddressError(refusals.map(({ message }) => message).join("; "), {
    cause: refusals[0]?.cause,
    event: refusals.map(({ event }) => event).join("; "),
  });
}

function isRefusal(cause: unknown): boolean {
  return cause instanceof OutOfBlocksError ||
    cause instanceof PoolNotFoundError;
}
