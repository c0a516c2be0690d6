/** The two IP families, named as Kubernetes names them (in lower case). */
export type Family = "ipv4" | "ipv6";

/** Lists both families, IPv4 first: the order in which everything is shown. */
export const FAMILIES: readonly Family[] = ["ipv4", "ipv6"];

/** Holds at most one value per family. An absent family has no property. */
export type DualStack<T> = { readonly ipv4?: T; readonly ipv6?: T };

/** Applies `f` to the value of each family that is present. */
export function mapDualStack<T, U>(
  dual: DualStack<T>,
  f: (value: T, family: Family) => U,
): DualStack<U> {
  return {
    ...(dual.ipv4 === undefined ? {} : { ipv4: f(dual.ipv4, "ipv4") }),
    ...(dual.ipv6 === undefined ? {} : { ipv6: f(dual.ipv6, "ipv6") }),
  };
}

/** Returns the values that are present, IPv4 first. */
export function valuesOf<T>(dual: DualStack<T>): T[] {
  const values: T[] = [];
  if (dual.ipv4 !== undefined) values.push(dual.ipv4);
  if (dual.ipv6 !== undefined) values.push(dual.ipv6);
  return values;
}

/** Returns the width of an address of the family in bits. */
export function bitsOf(family: Family): 32 | 128 {
  return family === "ipv4" ? 32 : 128;
}
