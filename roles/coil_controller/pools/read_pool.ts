import { type AddressPool, type Pool, poolOf } from "../../../lib/api/mod.ts";

/** Parses a pool; of one that cannot be read, why. */
export function readPool(object: AddressPool): Pool | SyntaxError {
  try {
    return poolOf(object);
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
}
