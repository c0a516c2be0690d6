import { type BlockKind, sizeOf } from "./eni.ts";

/** Limits of an instance type. */
export interface Limits {
  /** The most ENIs, the primary included. */
  readonly enis: number;
  /** The most IPv4 addresses or prefixes of an ENI, its primary address included. */
  readonly addressesPerEni: number;
  /** Whether prefixes can be delegated: on Nitro only. */
  readonly prefixes: boolean;
}

/** Limits from the admin's flags. */
export interface LimitOptions {
  /** `--max-enis`. */
  readonly maxEnis?: number | undefined;
  /** `--eni-limits=N,M`. */
  readonly eniLimits?: Pick<Limits, "enis" | "addressesPerEni"> | undefined;
}

/**
 * Narrows a type's limits to what an admin allows.
 *
 * @throws {RangeError} when they allow no address, or more than the type
 */
export function narrowLimits(type: Limits, options: LimitOptions): Limits {
  const { eniLimits, maxEnis = Infinity } = options;
  for (const key of ["enis", "addressesPerEni"] as const) {
    const wanted = eniLimits?.[key] ?? type[key];
    if (wanted > type[key]) {
      throw new RangeError(
        `Cannot use ENI limits: ${key} is ${wanted}, the instance type has ${
          type[key]
        }`,
      );
    }
  }
  const { enis, addressesPerEni } = { ...type, ...eniLimits };
  const limits = { ...type, enis: Math.min(enis, maxEnis), addressesPerEni };
  if (!(limits.enis >= 1 && slotsOf(limits) >= 1)) {
    throw new RangeError(
      `Cannot use ENI limits: ${limits.enis} ENIs of ${addressesPerEni} addresses leave none for pods`,
    );
  }
  return limits;
}

/** How many blocks an ENI holds: its primary address takes one place. */
export function slotsOf({ addressesPerEni }: Limits): number {
  return addressesPerEni - 1;
}

/** How many pods the type has addresses for. */
export function capacityOf(limits: Limits, kind: BlockKind): number {
  return limits.enis * slotsOf(limits) * sizeOf(kind);
}
